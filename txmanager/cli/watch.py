"""`txmanager watch`: the lanes as they work, again and again, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Annotated

import typer

from txmanager.cli.access import with_manager
from txmanager.cli.lanes import age
from txmanager.cli.options import ConfigFile
from txmanager.core.errors import Unavailable
from txmanager.core.models import Lane
from txmanager.core.states import LaneState
from txmanager.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

    from txmanager.runtime.manager import TxManager

_COLOURS = {
    LaneState.ACTIVE: "green",
    LaneState.DRAINING: "cyan",
    LaneState.PAUSED: "yellow",
    LaneState.QUARANTINED: "red",
    LaneState.CLOSED: "dim",
}


def watch(
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two updates.")] = 1.0,
    times: Annotated[int | None, typer.Option(min=1, help="Stop after this many updates.")] = None,
    config: ConfigFile = None,
) -> None:
    """Show a live table of the lanes: depth, in flight, rate, oldest intent, owner."""

    async def look(manager: TxManager, settings: Settings) -> None:
        await _look(manager, every, times)

    with contextlib.suppress(KeyboardInterrupt):
        with_manager(config, look)


async def _look(manager: TxManager, every: float, times: int | None) -> None:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

    rates = Rates()
    console = Console()
    live = Live(console=console, auto_refresh=False)

    def show(what: RenderableType) -> None:
        if console.is_terminal:
            live.update(what, refresh=True)
        else:
            console.print(what)

    with live if console.is_terminal else contextlib.nullcontext():
        looks = 0
        while times is None or looks < times:
            if looks:
                await asyncio.sleep(every)
            looks += 1
            try:
                lanes = sorted(await manager.lanes(), key=lambda lane: (lane.spec.pool, lane.id))
            except Unavailable as error:
                # The table stands; the next look may find the ledger again.
                show(Text(f"{error}; trying again", style="yellow"))
                continue
            show(render(lanes, rates.of(lanes, time.monotonic())))


class Rates:
    """Intents landed per second, from the nonces between two looks. The first look knows none."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int]] = {}

    def of(self, lanes: list[Lane], now: float) -> dict[str, float]:
        rates = {}
        for lane in lanes:
            if lane.landed is None:
                continue
            then, landed = self._seen.get(lane.id, (now, lane.landed))
            if now > then:
                rates[lane.id] = max(0, lane.landed - landed) / (now - then)
            self._seen[lane.id] = (now, lane.landed)
        return rates


def render(lanes: list[Lane], rates: dict[str, float]) -> Table:
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("lane", "state", "owner"):
        # Of a narrow window, the lanes' ids alone lose something.
        shown.add_column(name, no_wrap=name != "lane", overflow="ellipsis")
    for name in ("depth", "in flight", "rate/s", "oldest"):
        shown.add_column(name, justify="right", no_wrap=True)
    explained = any(lane.reason for lane in lanes)
    if explained:
        shown.add_column("why")
    for lane in lanes:
        state = f"[{_COLOURS[lane.state]}]{lane.state.value}[/]"
        rate = f"{rates[lane.id]:.1f}" if lane.id in rates else "-"
        owner = lane.owner if lane.lease_ms else "-"
        counts = (str(lane.depth), str(lane.unfinished), rate, age(lane.oldest_ms))
        shown.add_row(short(lane.id), state, owner, *counts, *([Text(lane.reason)] if explained else []))
    depth, inflight = sum(lane.depth for lane in lanes), sum(lane.unfinished for lane in lanes)
    oldest = age(max((lane.oldest_ms for lane in lanes), default=0))
    total = f"{sum(rates.values()):.1f}" if rates else "-"
    shown.add_row(f"{len(lanes)} lanes", "", "", str(depth), str(inflight), total, oldest, style="bold")
    return shown


def short(lane: str) -> str:
    """Enough of a long public key to tell it from the others, and to give to `txmanager lanes pause`."""
    head, _, key = lane.rpartition(":")
    return f"{head.removesuffix(':ed25519')}:{key[:8]}" if len(key) > 12 else lane
