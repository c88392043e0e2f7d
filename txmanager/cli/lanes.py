"""`txmanager lanes`: every signing key's queue, and the operator's verbs for one of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from txmanager.cli.access import confirm, find_lane, note, with_manager
from txmanager.cli.options import AsJson, ConfigFile, Yes
from txmanager.core.errors import Unavailable
from txmanager.core.models import Lane
from txmanager.core.reservations import Book, Reservation
from txmanager.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from txmanager.runtime.manager import TxManager

app = typer.Typer(help="List and operate lanes, the queues of the signing keys.")

LaneName = Annotated[str, typer.Argument(metavar="LANE", help="The lane's id, or a part of it that is unique.")]
StayPaused = Annotated[
    bool, typer.Option("--paused", help="Sign nothing new until `resume`, so that you can first cancel what was paid.")
]
Reason = Annotated[str, typer.Option(help="Why; shown with the lane.")]


@app.callback(invoke_without_command=True)
def lanes(
    context: typer.Context,
    pool: Annotated[str | None, typer.Option(help="Only the lanes of this pool.")] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List the lanes: state, queue, owner. With a verb: steer one of them."""
    if context.invoked_subcommand is not None:
        return

    async def read(manager: TxManager, settings: Settings) -> list[Lane]:
        return sorted(await manager.lanes(pool), key=lambda lane: (lane.spec.pool, lane.id))

    found = with_manager(config, read)
    if as_json:
        from txmanager.api.records import lane_json

        typer.echo(json.dumps([lane_json(lane) for lane in found], indent=2, default=str))
        return
    if not found:
        typer.echo("no lane is registered yet; start a worker", err=True)
        return
    for line in table(found):
        typer.echo(line)


@app.command()
def pause(lane: LaneName, reason: Reason = "", config: ConfigFile = None) -> None:
    """Stop signing. Sent transactions are still tracked, and new intents still queue."""
    _move(config, lane, "pause", lambda manager, id: manager.pause(id, reason), reason)


@app.command()
def resume(lane: LaneName, config: ConfigFile = None) -> None:
    """Let a paused, draining or quarantined lane sign again."""
    _move(config, lane, "resume", lambda manager, id: manager.resume(id))


@app.command()
def drain(lane: LaneName, config: ConfigFile = None) -> None:
    """Finish what is queued, but route no new intents here. Do this before close."""
    _move(config, lane, "drain", lambda manager, id: manager.drain(id))


@app.command()
def close(lane: LaneName, yes: Yes = False, config: ConfigFile = None) -> None:
    """Close a drained, empty lane permanently. Its key can never be used again."""
    confirm(f"A closed lane never opens again. Close {lane}?", yes)
    _move(config, lane, "close", lambda manager, id: manager.close_lane(id))


@app.command()
def rebaseline(lane: LaneName, paused: StayPaused = False, yes: Yes = False, config: ConfigFile = None) -> None:
    """Continue from the chain's nonce, after you have checked what happened (see the runbook)."""
    confirm(f"Only do this if you know why the nonces of {lane} differ. Continue from the chain's nonce?", yes)
    _move(config, lane, "rebaseline", lambda manager, id: manager.rebaseline(id, paused=paused), "--paused" * paused)


@app.command()
def replay(lane: LaneName, yes: Yes = False, config: ConfigFile = None) -> None:
    """Send the same bytes again after a reorg beyond finality. Do this before rebaseline."""

    async def work(manager: TxManager, settings: Settings) -> None:
        from txmanager.runtime.care.replay import check_replayable, send_again
        from txmanager.wiring import open_lane_chain

        found = await find_lane(manager, lane)
        check_replayable(found)
        chain = open_lane_chain(settings, found.id, found.spec.pool)
        try:
            plan = await manager.plan_replay(found.id, chain)
            typer.echo(f"{plan.lane}: the chain is at nonce {plan.next_nonce}, the lane at {plan.cursor}")
            for one in plan.ready:
                typer.echo(f"  {one.nonce}  {one.hash}  {one.intent or 'a no-op'}")
            if plan.missing:
                shown = ", ".join(map(str, plan.missing[:10])) + (" ..." if len(plan.missing) > 10 else "")
                typer.echo(f"  bytes not kept: {shown}; nothing above nonce {plan.missing[0]} can be sent again")
            if not plan.ready:
                typer.echo("nothing to send")
                return
            confirm(
                f"Send these {len(plan.ready)} transactions again? The bytes are the same, so each can land only once.",
                yes,
            )
            await note(manager, "lanes replay", found.id, details=f"{plan.next_nonce}..{plan.ready[-1].nonce}")
            refusal = await send_again(chain, plan, lambda sent: typer.echo(f"  sent {sent} of {len(plan.ready)}"))
        finally:
            await chain.close()
        if refusal is not None:
            raise Unavailable(f"the node did not accept all of them: {refusal.message}. Repeating the command is safe.")
        typer.echo(f"sent; once they are mined, run: txmanager lanes rebaseline {found.id}")

    with_manager(config, work)


@app.command()
def reservations(lane: LaneName, config: ConfigFile = None) -> None:
    """List the reserved nonces of a keyless lane, as JSON."""

    async def read(manager: TxManager, settings: Settings) -> Book:
        return await manager.book((await find_lane(manager, lane)).id)

    from txmanager.api.reservations import reservation_json

    typer.echo(json.dumps([reservation_json(one) for one in with_manager(config, read).reserved], indent=2))


@app.command()
def release(
    lane: LaneName,
    nonce: Annotated[int, typer.Argument(min=0, help="The nonce.")],
    config: ConfigFile = None,
) -> None:
    """Take back a reserved nonce that was not sent. The next caller gets it."""

    async def work(manager: TxManager, settings: Settings) -> tuple[str, Reservation]:
        found = await find_lane(manager, lane)
        await note(manager, "lanes release", found.id, details=str(nonce))
        return found.id, await manager.release_number(found.id, nonce)

    id, one = with_manager(config, work)
    typer.echo(f"{id}: nonce {one.nonce} of tenant {one.tenant} is free again")


@app.command()
def delete(lane: LaneName, yes: Yes = False, config: ConfigFile = None) -> None:
    """Delete a keyless lane that has no records, no reserved nonces, and no nonces that may have been sent."""
    confirm(f"Its nonces will start from the chain's count again. Delete {lane}?", yes)

    async def work(manager: TxManager, settings: Settings) -> str:
        found = await find_lane(manager, lane)
        await note(manager, "lanes delete", found.id)
        await manager.forget_lane(found.id)
        return found.id

    typer.echo(f"{with_manager(config, work)}: deleted")


def _move(
    config: Path | None, name: str, verb: str, act: Callable[[TxManager, str], Awaitable[Lane]], details: str = ""
) -> None:
    async def work(manager: TxManager, settings: Settings) -> tuple[str, Lane]:
        before = await find_lane(manager, name)
        await note(manager, f"lanes {verb}", before.id, details=details)
        await act(manager, before.id)
        # Read again: the verb's own answer is of the moment before its owner saw it.
        return before.state, await find_lane(manager, before.id)

    before, after = with_manager(config, work)
    because = f" ({after.reason})" if after.reason else ""
    typer.echo(f"{after.id}: {before} -> {after.state}{because}")


HEADERS = ("pool", "state", "depth", "in flight", "oldest", "owner", "lane")
_RIGHT = frozenset({"depth", "in flight", "oldest"})


def cells(lane: Lane) -> tuple[str, ...]:
    owner = lane.owner if lane.lease_ms else "-"
    depth, inflight = str(lane.depth), str(lane.unfinished)
    return (lane.spec.pool, lane.state.value, depth, inflight, age(lane.oldest_ms), owner, lane.id)


def table(lanes: Sequence[Lane]) -> list[str]:
    rows = [HEADERS, *map(cells, lanes)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(HEADERS))]
    lines = []
    for number, row in enumerate(rows):
        lines.append(
            "  ".join(
                text.rjust(width) if name in _RIGHT else text.ljust(width)
                for name, text, width in zip(HEADERS, row, widths, strict=True)
            ).rstrip()
        )
        if number and (lane := lanes[number - 1]).reason:
            evidence = f" {json.dumps(lane.evidence, default=str)}" if lane.evidence else ""
            lines.append(f"    {lane.reason}{evidence}")
    return lines


def age(ms: int) -> str:
    seconds = ms // 1000
    if seconds < 120:
        return f"{seconds} s" if ms else "-"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
