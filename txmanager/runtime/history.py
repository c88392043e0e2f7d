"""The list of intents: live ones from the ledger, ended ones from the archive, newest first.

A page reads the ledger before the archive. An intent that is archived and leaves its lane meanwhile is then met twice
(and told once, by its life) and never missed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping, Sequence

from txmanager.core.archive import ArchiveReader, UsageLine, UsageQuery
from txmanager.core.errors import NotAllowed, NotFound
from txmanager.core.kinds import Kind, reading_of
from txmanager.core.ledger import Homes, LaneRegistry, Ledger
from txmanager.core.listing import SCAN_LIMIT, Browsed, Filter, Mark, Page, Receivers, mark_of
from txmanager.core.models import IntentId, Record

_SMALLEST, _LARGEST = 8, 1_000
"""How many records of one lane are read at once."""
_AT_ONCE = 200
"""Records that are looked at before others get their turn."""


def reads_receivers(kinds: Mapping[str, Kind]) -> Receivers:
    """Whom a record's payload acts on, as its kind reads it."""

    def receivers(record: Record) -> frozenset[str]:
        reading = reading_of(kinds, record)
        return frozenset() if reading is None else reading.receivers

    return receivers


class History:
    def __init__(self, ledger: Ledger, receivers: Receivers, archive: ArchiveReader | None = None) -> None:
        self._registry: LaneRegistry = ledger
        self._homes: Homes = ledger
        self._receivers = receivers
        self._archive = archive

    @property
    def archived(self) -> bool:
        """Whether ended intents are listed, too."""
        return self._archive is not None

    async def page(self, wanted: Filter, before: Mark | None, limit: int) -> Page:
        if wanted.until is not None and (before is None or before > (wanted.until, "")):
            before = (wanted.until, "")
        live = await self._live(wanted, before, limit)
        if self._archive is None:
            return live
        return _joined(live, await self._archive.page(wanted, before, limit), limit)

    async def read(self, id: IntentId, life: str) -> Record:
        """One use of a key: with its payload from the archive, or as the ledger has it."""
        if self._archive is not None and (found := await self._archive.read(id, life)) is not None:
            return found
        record = await self._homes.read(id)
        if record is None or record.id != id or record.life != life:
            where = "the ledger or the archive" if self.archived else "the ledger, and there is no archive"
            raise NotFound(f"no life {life!r} of {id.key!r} in {where}")
        return record

    async def usage(self, wanted: UsageQuery) -> list[UsageLine]:
        if self._archive is None:
            raise NotAllowed("there is no [archive] in this configuration, so nobody keeps the books; add one")
        return await self._archive.usage(wanted)

    async def _live(self, wanted: Filter, before: Mark | None, limit: int) -> Page:
        routes = await self._registry.routes()
        lanes = [r.lane for r in routes if wanted.sees_pool(r.pool) and wanted.lane in (None, r.lane)]
        merged = _Merged(self._registry, lanes, before, limit)
        found: list[Record] = []
        looked, last = 0, before
        while (record := await merged.newest()) is not None:
            mark = mark_of(record)
            if wanted.since is not None and mark[0] < wanted.since:
                return Page(tuple(found))
            if wanted.sees(record, self._receivers):
                if len(found) == limit:
                    return Page(tuple(found), mark_of(found[-1]))
                found.append(record)
            looked, last = looked + 1, mark
            if looked >= SCAN_LIMIT:
                return Page(tuple(found), last, partial=True)
            if looked % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return Page(tuple(found))


class _Merged:
    """The records of several lanes in one order: a heap with the newest unread record of each lane."""

    def __init__(self, registry: LaneRegistry, lanes: Sequence[str], before: Mark | None, limit: int) -> None:
        self._registry = registry
        self._count = max(_SMALLEST, min(_LARGEST, 2 * limit // max(1, len(lanes))))
        self._unread: dict[str, Mark | None] = dict.fromkeys(lanes, before)
        """Where each lane goes on, as long as it does."""
        self._waiting: dict[str, list[Record]] = {}
        self._heap: list[tuple[_Order, str]] = []
        self._empty = list(lanes)

    async def newest(self) -> Record | None:
        while self._empty:
            await self._refill()
        if not self._heap:
            return None
        _, lane = heapq.heappop(self._heap)
        record = self._waiting[lane].pop()
        self._offer(lane)
        return record

    async def _refill(self) -> None:
        lanes, self._empty = self._empty, []
        for lane, page in zip(lanes, await asyncio.gather(*map(self._read, lanes)), strict=True):
            self._waiting[lane] = list(reversed(page.records))
            del self._unread[lane]
            if page.next is not None:
                self._unread[lane] = page.next
            self._offer(lane)
        self._count = min(_LARGEST, 2 * self._count)  # who reads on is looking for something rare

    def _offer(self, lane: str) -> None:
        if waiting := self._waiting[lane]:
            heapq.heappush(self._heap, (_order(mark_of(waiting[-1])), lane))
        elif lane in self._unread:
            self._empty.append(lane)

    async def _read(self, lane: str) -> Browsed:
        return await self._registry.browse(lane, self._unread[lane], self._count)


_Order = tuple[int, tuple[int, ...]]


def _order(mark: Mark) -> _Order:
    """The newest first, in a heap that gives out the smallest."""
    return -mark[0], (*(-ord(letter) for letter in mark[1]), 1)


def _joined(live: Page, ended: Page, limit: int) -> Page:
    """Both in one order, each life once. Neither says anything of what lies behind its end."""
    horizon = max((page.next for page in (live, ended) if page.next is not None), default=None)
    by_life = {record.life: record for record in (*live.records, *ended.records)}
    found = sorted(by_life.values(), key=mark_of, reverse=True)
    if horizon is not None:
        found = [record for record in found if mark_of(record) >= horizon]
    if len(found) > limit:
        return Page(tuple(found[:limit]), mark_of(found[limit - 1]))
    partial = any(page.partial and page.next == horizon for page in (live, ended))
    return Page(tuple(found), horizon, partial=partial)
