"""Idle, Queued, Processing: what every event makes of every state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.mempool.stage import Stage, address
from txmanager.core.admission import Count, End, State

TABLE = {
    # event: what becomes of idle (only a gap waits), queued (its head), processing (its head)
    "admit_head": ("queued", "queued", "processing"),
    "admit_gap": ("idle", "queued", "processing"),
    "replace_head": ("queued", "queued", "processing"),
    "take": ("idle", "processing", "processing"),
    "sent": ("idle", "queued", "idle"),
    "retry": ("idle", "queued", "queued"),
    "maybe": ("idle", "queued", "queued"),
    "refuse": ("idle", "queued", "idle"),
    "count_passes": ("idle", "idle", "idle"),
    "count_same": ("idle", "queued", "processing"),
    "purge": ("idle", "idle", "processing"),
    "drop": ("idle", "idle", "processing"),
    "expire": ("idle", "queued", "processing"),
    "reopen": ("idle", "queued", "processing"),
    "holder_dies": ("idle", "queued", "processing"),
    "take_over": ("idle", "processing", "processing"),
}


STATES = ("idle", "queued", "processing")


def _promise(event: str, after: tuple[str, str, str]) -> Callable[[Stage], Awaitable[None]]:
    async def promise(stage: Stage) -> None:
        found = []
        for before in STATES:
            found.append(await _moved(stage, event, before))
            await stage.mempool.observe({address("t"): Count(99, "0xz", 999)})
            out = [hash for one in await stage.mempool.followed() for _, hash, _ in one.out]
            await stage.mempool.end([End(hash, "final") for hash in out])
            await stage.mempool.drop(all=True)
            await stage.advance(10_000)
            await stage.mempool.expire()
        assert dict(zip(STATES, found, strict=True)) == dict(zip(STATES, after, strict=True))

    return promise


PROMISES = {f"table_of_states_holds_for_{event}": _promise(event, after) for event, after in TABLE.items()}


async def _moved(stage: Stage, event: str, before: str) -> str:
    await stage.open(capacity=3, executors=2, idle_ms=10**9)
    grant = None
    if before == "idle":
        await stage.waiting("t", 1)
    elif before == "queued":
        await stage.waiting("t", 0)
    else:
        grant = await stage.granted("t", 0)
    if event in ("admit_head", "replace_head"):
        await stage.admit("t", 0, 11)
    elif event == "admit_gap":
        await stage.admit("t", 3)
    elif event == "take":
        await stage.take()
    elif event in ("sent", "retry", "maybe", "refuse") and grant is not None:
        await stage.done(grant, event, more=False)  # type: ignore[arg-type]
    elif event == "count_passes":
        await stage.observe("t", 2, height=100)
    elif event == "count_same":
        await stage.observe("t", 0, height=100)
    elif event == "purge":
        for nonce in range(3):
            await stage.admit("u", nonce, 50)
    elif event == "drop":
        await stage.mempool.drop(sender=address("t"))
    elif event == "expire":
        await stage.mempool.expire()
    elif event == "reopen":
        await stage.mempool.reopen([e.hash for e in await stage.mempool.content()])
    elif event == "holder_dies":
        await stage.mempool.leave("me")
    elif event == "take_over":
        await stage.advance(6_000)
        await stage.mempool.heartbeat("you")
        await stage.take(1, "you")
    shown = await stage.mempool.content(address("t"))
    if any(e.state is State.PROCESSING for e in shown):
        return "processing"
    totals = await stage.mempool.totals()
    others = 1 if event == "purge" else 0
    return "queued" if totals.ready > others else "idle"
