"""The board: all lanes and what happened in them, looked at once a second for everybody who watches.

One look costs the same however many watch, and nothing is read while nobody does. A watcher keeps its place and nothing
else: one that reads slowly skips what was forgotten meanwhile and starts again from a whole look.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import LaneRegistry
from txmanager.core.models import Event, Lane
from txmanager.core.positions import Place, place, place_text

_KEPT = 30
_PAGE = 500
_MOST_EVENTS = 2_000
_SHARE = 20
"""A look that takes long is made less often: looking takes at most a twentieth of the time."""


@dataclass(slots=True)
class Look:
    """What one look found. `lanes` are all of them; `changed`, `gone` and `events` are news since the look before."""

    number: int
    at: int
    lanes: Mapping[str, Lane]
    changed: Sequence[Lane] = ()
    gone: Sequence[Lane] = ()
    events: Sequence[Event] = ()
    missed: bool = False
    """More happened than a look tells: whoever shows intents reads them again."""
    away: bool = False
    """The ledger did not answer; the lanes are those of the look before."""
    encoded: dict[Hashable, bytes] = field(default_factory=dict)
    """For whoever tells it to many: what was made of it, by who may see it."""

    @property
    def news(self) -> bool:
        return bool(self.changed or self.gone or self.events or self.missed)


class Watcher:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._seen = -1

    async def next(self, timeout_s: float) -> tuple[list[Look], bool]:
        """The looks with news since the last call, and whether they begin with one to be taken whole: the first, or
        the first after some were missed. Nothing when no news came in time."""
        board = self._board
        if board.newest is None or board.newest.number <= self._seen:
            await board.wait(timeout_s)
        if board.newest is None or board.newest.number <= self._seen:
            return [], False
        known = [look for look in board.kept if look.number > self._seen]
        skipped = self._seen < board.forgotten
        self._seen = board.newest.number
        return ([board.newest], True) if skipped else (known, False)


class Board:
    def __init__(self, ledger: LaneRegistry, period_s: float = 1.0) -> None:
        self._ledger = ledger
        self._period_s = period_s
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._bell = asyncio.Event()
        self._places: dict[str, Place] = {}
        self._looked_at = 0
        self._log = structlog.get_logger("board")
        self.kept: deque[Look] = deque()
        self.newest: Look | None = None
        self.forgotten = 0
        """The newest look that is no longer kept."""
        self.looks = 0

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Watcher]:
        self._watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            yield Watcher(self)
        finally:
            self._watchers -= 1
            if self._watchers == 0:
                self.close()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task, self.newest = None, None
        self.kept.clear()
        self._places.clear()
        self._looked_at = 0
        self.forgotten = self.looks

    async def wait(self, timeout_s: float) -> None:
        bell = self._bell
        try:
            async with asyncio.timeout(timeout_s):
                await bell.wait()
        except TimeoutError:
            pass

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                look = await self._look()
            except TxManagerError as error:
                if self.newest is None or not self.newest.away:
                    self._log.warning("cannot look at the lanes", error=str(error))
                look = self._nothing()
            except Exception:
                self._log.exception("cannot look at the lanes")
                look = self._nothing()
            if look.news or self.newest is None or self.newest.away != look.away:
                self._publish(look)
            took = loop.time() - began
            await asyncio.sleep(max(self._period_s - took, _SHARE * took))

    def _publish(self, look: Look) -> None:
        self.looks += 1
        look.number = self.looks
        self.newest = look
        self.kept.append(look)
        if len(self.kept) > _KEPT:
            self.forgotten = self.kept.popleft().number
        self._bell.set()
        self._bell = asyncio.Event()

    def _nothing(self) -> Look:
        before = self.newest
        return Look(0, 0, {}, away=True) if before is None else Look(0, before.at, before.lanes, away=True)

    async def _look(self) -> Look:
        before = self.newest
        known = {} if before is None else before.lanes
        at = await self._ledger.now_ms()
        lanes = {lane.id: lane for lane in await self._ledger.lanes()}
        changed = [lane for id, lane in lanes.items() if id not in known or _news_of(known[id]) != _news_of(lane)]
        changed_ids = {lane.id for lane in changed}
        # every transition moves the lane, or concerns something that is still in its queue
        busy = [lane.id for lane in lanes.values() if lane.id in changed_ids or lane.depth]
        events, missed = await self._events(busy, at) if self._looked_at else ([], False)
        self._looked_at = at
        gone = [lane for id, lane in known.items() if id not in lanes]
        return Look(0, at, lanes, changed, gone, events, missed)

    async def _events(self, lanes: Sequence[str], at: int) -> tuple[list[Event], bool]:
        found: list[Event] = []
        missed = False
        for lane in lanes:
            after = self._places.get(lane, (self._looked_at - 1, 0))
            events = await self._ledger.events(lane, place_text(after), _PAGE) if len(found) < _MOST_EVENTS else []
            found += events
            if events:
                self._places[lane] = place(events[-1].id)
            if len(events) == _PAGE or len(found) >= _MOST_EVENTS:
                self._places[lane], missed = max((at - 1, 0), self._places.get(lane, after)), True
        return sorted(found, key=lambda event: event.at), missed


def _news_of(lane: Lane) -> tuple[object, ...]:
    """What makes a row new: its times alone do not."""
    return (
        *(lane.state, lane.reason, lane.evidence, lane.owner if lane.lease_ms else "", lane.epoch),
        *(lane.cursor, lane.landed, lane.signed_upto, lane.last_id, lane.depth, lane.unfinished, lane.spec),
    )
