"""Followers of event streams: one reader per lane and process, however many follow.

Nothing is buffered per follower but its place: an intent's follower keeps the few events of its own intent, a pool's
follower reads from the lane's recent events, or from the ledger when it fell behind. A follower may see an event
twice, never out of order within a lane, and misses none that the ledger still has.

A follower that waits costs nothing: it is woken for the lanes that have something, and the registry is read once for
all. With many lanes or followers events come a little later instead of taking the whole process.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache

import structlog

from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import LaneRegistry
from txmanager.core.models import Event, IntentId, Json
from txmanager.core.positions import Place, place, place_text
from txmanager.runtime.registry import Lanes, Registry

_PAGE = 500
_RECENT = 2_000
_REPLAY_PAGES = 8
_READS_PER_S = 1_000
"""Of all lanes together, while nothing happens in them."""
_WAKES_PER_S = 10_000
"""Of all followers of pools together."""


def instant(ms: int) -> str:
    """RFC 3339 in UTC, always with milliseconds."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


@lru_cache(maxsize=1_000)
def _second(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=10_000)
def lane_mark(lane: str) -> str:
    """A short name for a lane, in ids that clients keep."""
    return hashlib.blake2b(lane.encode(), digest_size=6).hexdigest()


def event_json(event: Event, *, tenant: bool = False) -> dict[str, Json]:
    """An event as SSE and webhooks tell it. Its id is the same each time. Whoever follows several tenants
    also gets the tenant."""
    body: dict[str, Json] = {
        "id": f"{lane_mark(event.lane)}-{event.id}",
        "idempotency_key": event.intent.key,
        "lane": event.lane,
        "pool": event.intent.pool,
        "status": event.status.value,
        "at": instant(event.at),
    }
    if tenant:
        body["tenant"] = event.intent.tenant
    if event.tx_hash is not None:
        body["tx_hash"] = event.tx_hash
    if event.error is not None:
        body["error"] = event.error
    return body


class IntentFollower:
    """Live events of one intent; an intent has few, so they are kept until they are asked for."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._bell = asyncio.Event()

    def push(self, event: Event) -> None:
        self._events.append(event)
        self._bell.set()

    async def next(self, timeout_s: float) -> list[Event]:
        """What came since the last call; empty when nothing did in time."""
        if not self._events:
            self._bell.clear()
            await _rings(self._bell, timeout_s)
        found = list(self._events)
        self._events.clear()
        return found


class _Tail:
    """The end of one lane's stream, read while anybody follows it."""

    def __init__(self, hub: EventHub, lane: str) -> None:
        self._hub = hub
        self.lane = lane
        self.floor: Place = (0, 0)
        self.recent: deque[tuple[Place, Event]] = deque()
        self.intents: dict[IntentId, set[IntentFollower]] = {}
        self.pools: set[PoolFollower] = set()
        self.started = asyncio.Event()
        self.users = 0
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        cursor: Place | None = None
        while True:
            try:
                if cursor is None:
                    cursor = self.floor = (await self._hub.ledger.now_ms() - 1, 0)
                    self.started.set()
                events = await self._hub.ledger.events(self.lane, place_text(cursor), _PAGE)
            except TxManagerError as error:
                self._hub.log.warning("cannot read events", lane=self.lane, error=str(error))
                await asyncio.sleep(5 * self._hub.poll_s)
                continue
            if events:
                cursor = place(events[-1].id)
                self._dispatch(events)
            if len(events) < _PAGE:
                await asyncio.sleep(self._hub.pause_s)

    def _dispatch(self, events: list[Event]) -> None:
        self.recent.extend((place(event.id), event) for event in events)
        while len(self.recent) > _RECENT:
            self.floor = self.recent.popleft()[0]
        for event in events:
            for follower in self.intents.get(event.intent, ()):
                follower.push(event)
        for reader in self.pools:
            reader.ring(self.lane)

    async def after(self, at: Place, count: int) -> list[Event]:
        if at >= self.floor:
            newer: list[Event] = []
            for where, event in reversed(self.recent):
                if where <= at:
                    break
                newer.append(event)
            return newer[::-1][:count]
        return await self._hub.ledger.events(self.lane, place_text(at), count)


class PoolFollower:
    """Events of every lane of a pool, merged as they come; `places` is where it stands in each."""

    def __init__(self, hub: EventHub, pool: str, places: Mapping[str, Place] | None) -> None:
        self._hub = hub
        self._pool = pool
        self._resumed = places is not None
        self.places: dict[str, Place] = dict(places or {})
        self._bell = asyncio.Event()
        self._tails: dict[str, _Tail] = {}
        self._lanes: Lanes | None = None
        self._news: set[str] = set()
        """Lanes that may have something."""
        self._collected_at = float("-inf")

    def ring(self, lane: str) -> None:
        self._news.add(lane)
        self._bell.set()

    async def join(self) -> None:
        """Take a place in every lane of the pool: what happens from now on is not missed."""
        lanes = await self._hub.registry.lanes(self._pool)
        self._hub.registry.watch(self._pool, self._bell.set)
        await self._follow(lanes)

    async def next(self, timeout_s: float) -> list[Event]:
        """At most a page per lane; empty when nothing came in time. Sets the places behind what it returns."""
        if self._lanes is None:
            await self.join()
        found = await self._collect()
        if not found:
            await _rings(self._bell, timeout_s)
            self._bell.clear()
            await asyncio.sleep(self._collected_at + self._hub.gap_s - asyncio.get_running_loop().time())
            await self._follow(self._hub.registry.known(self._pool))
            found = await self._collect()
            self._collected_at = asyncio.get_running_loop().time()
        return found

    async def _collect(self) -> list[Event]:
        found: list[Event] = []
        looking = set(self._news)
        try:
            while looking:
                lane = next(iter(looking))
                self._news.discard(lane)  # first: what comes meanwhile rings again
                events = await self._tails[lane].after(self.places[lane], _PAGE)
                looking.discard(lane)
                if events:
                    self.places[lane] = place(events[-1].id)
                    found += events
                if len(events) == _PAGE:
                    self._news.add(lane)
        finally:
            self._news = self._news | looking  # a new one: a set that was large once stays large
        return sorted(found, key=lambda e: e.at) if len(self._tails) > 1 else found

    async def _follow(self, lanes: Lanes) -> None:
        if lanes is self._lanes:
            return
        first, self._lanes = self._lanes is None, None
        for lane in lanes:
            if lane in self._tails:
                continue
            tail = await self._hub.attach(lane)
            tail.pools.add(self)
            self._tails[lane] = tail
            # a lane that joined the pool meanwhile is followed from its beginning
            start = tail.floor if first and not self._resumed else (0, 0)
            self.places.setdefault(lane, start)
            self._news.add(lane)
        self._lanes = lanes

    def close(self) -> None:
        self._hub.registry.unwatch(self._bell.set)
        for tail in self._tails.values():
            tail.pools.discard(self)
            self._hub.detach(tail)
        self._tails.clear()


class EventHub:
    def __init__(self, ledger: LaneRegistry, poll_s: float = 0.1) -> None:
        self.ledger = ledger
        self.poll_s = poll_s
        self.log = structlog.get_logger("events")
        self.registry = Registry(ledger)
        self._tails: dict[str, _Tail] = {}
        self._pool_followers = 0

    @property
    def pause_s(self) -> float:
        """Between two reads of a lane in which nothing happens."""
        return max(self.poll_s, len(self._tails) / _READS_PER_S)

    @property
    def gap_s(self) -> float:
        """Between two wakes of one pool's follower."""
        return self._pool_followers / _WAKES_PER_S

    @property
    def lanes(self) -> list[str]:
        """Lanes that are being read, because somebody follows them."""
        return sorted(self._tails)

    async def attach(self, lane: str) -> _Tail:
        tail = self._tails.get(lane)
        if tail is None:
            tail = self._tails[lane] = _Tail(self, lane)
        tail.users += 1
        try:
            await tail.started.wait()
        except BaseException:
            self.detach(tail)
            raise
        return tail

    def detach(self, tail: _Tail) -> None:
        tail.users -= 1
        if tail.users == 0:
            tail.task.cancel()
            self._tails.pop(tail.lane, None)

    @asynccontextmanager
    async def intent(self, lane: str, id: IntentId) -> AsyncIterator[IntentFollower]:
        """Every event from before this returns is in the ledger already; every later one comes from the follower."""
        tail = await self.attach(lane)
        follower = IntentFollower()
        tail.intents.setdefault(id, set()).add(follower)
        try:
            yield follower
        finally:
            followers = tail.intents[id]
            followers.discard(follower)
            if not followers:
                del tail.intents[id]
            self.detach(tail)

    @asynccontextmanager
    async def pool(self, pool: str, places: Mapping[str, Place] | None = None) -> AsyncIterator[PoolFollower]:
        """From now on, or from the places of an earlier follower."""
        follower = PoolFollower(self, pool, places)
        self._pool_followers += 1
        try:
            yield follower
        finally:
            self._pool_followers -= 1
            follower.close()

    async def replay(self, lane: str, id: IntentId, after: Place) -> tuple[list[Event], bool]:
        """Events of an intent that the ledger still has, and whether the search came to the end of the stream."""
        found: list[Event] = []
        for _ in range(_REPLAY_PAGES):
            events = await self.ledger.events(lane, place_text(after), _PAGE)
            found += (event for event in events if event.intent == id)
            if len(events) < _PAGE:
                return found, True
            after = place(events[-1].id)
        return found, False

    def close(self) -> None:
        self.registry.close()
        for tail in self._tails.values():
            tail.task.cancel()
        self._tails.clear()


async def _rings(bell: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await bell.wait()
    except TimeoutError:
        pass
