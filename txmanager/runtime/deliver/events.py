"""Followers of event streams: one reader for all lanes of a process, however many follow.

Nothing is buffered per follower but its place: an intent's follower keeps the few events of its own intent, a pool's
follower reads from the lane's recent events, or from the ledger when it fell behind. A follower may see an event
twice, never out of order within a lane, and misses none that the ledger still has.

A follower that waits costs nothing: it is woken for the lanes that have something, and the registry is read once for
all. A lane is read when a hint says that something happened, quickly for a while after it did, and now and then without
a hint. With many lanes or followers events come a little later instead of taking the whole process.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import itertools
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice

import structlog

from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import Ledger
from txmanager.core.models import Event, IntentId, Json
from txmanager.core.positions import Place, place, place_text
from txmanager.core.reservations import FORGET_AFTER_MS
from txmanager.runtime.registry import Lanes, Registry

_PAGE = 500
_MOST = 2_000
"""Events that a pool's follower takes at a time; a page of the last lane may come on top."""
_RECENT = 2_000
_REPLAY_PAGES = 8
_READS_PER_S = 1_000
"""Of all lanes together."""
_QUIET_READS_PER_S = 100
"""Of all lanes together, while nothing happens in them: a hint may be lost."""
_TOGETHER_S = 0.01
"""What is due within so short a time is read together: of many lanes one is always due, and a timer for each took half
of an idle API's time. A lane that is rung does not wait for it."""
_AT_ONCE = 100
_LISTEN_AGAIN_S = 0.25
"""Lanes that join or leave are listened to together."""
LATE_MS = 60_000
"""How much older than the last look at the registry the first event of a lane may be that was not there then. A lane is
parked ten minutes after its last event at the soonest: one that came back tells nothing again."""
_RAISE_EVERY_S = 10.0
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


@dataclass(slots=True, eq=False)
class _Tail:
    """The end of one lane's stream, as far as it was read."""

    lane: str
    floor: Place
    read_at: float
    """When the last read began that was answered; at first when the floor was taken."""
    recent: deque[tuple[Place, Event]] | None = None
    intents: dict[IntentId, set[IntentFollower]] | None = None
    pools: tuple[PoolFollower, ...] = ()
    users: int = 0
    active_at: float = float("-inf")
    """When something last happened, or somebody began to wait for it."""
    due: float = float("inf")
    reading: bool = False
    hinted: bool = False
    """Whether another read should follow the one that is under way."""
    cursor: Place = field(init=False)

    def __post_init__(self) -> None:
        self.cursor = self.floor

    def dispatch(self, events: list[Event]) -> None:
        self.cursor = place(events[-1].id)
        if self.recent is None:
            self.recent = deque()
        self.recent.extend((place(event.id), event) for event in events)
        while len(self.recent) > _RECENT:
            self.floor = self.recent.popleft()[0]
        for event in events if self.intents is not None else ():
            for follower in self.intents.get(event.intent, ()):  # type: ignore[union-attr]
                follower.push(event)
        for reader in self.pools:
            reader.ring(self.lane)

    def newer(self, at: Place, count: int) -> list[Event] | None:
        """What was read behind a place; None where that is too long ago."""
        if at < self.floor:
            return None
        found: list[Event] = []
        for where, event in reversed(self.recent or ()):
            if where <= at:
                break
            found.append(event)
        return found[::-1][:count]


class PoolFollower:
    """Events of every lane of a pool, merged as they come. It stands at `places` in lanes that had some, and at `base`
    in all others."""

    def __init__(
        self, hub: EventHub, pool: str, places: Mapping[str, Place] | None, base: Place, parked: Sequence[str]
    ) -> None:
        self._hub = hub
        self._pool = pool
        self._resumed = places is not None
        self.places: dict[str, Place] = dict(places or {})
        self.base = base
        self._past = {lane: base for lane in parked if lane not in self.places}
        """Lanes that left the registry before: what they had is told, and they are followed only if they come back."""
        self._bell = asyncio.Event()
        self._tails: dict[str, _Tail] = {}
        self._lanes: Lanes | None = None
        self._looked = 0
        """When the pool's lanes were last looked at, by the store's clock."""
        self._ahead_ms = 0.0
        """How far the store's clock is ahead of the loop's."""
        self._raise_at = float("inf")
        self._left: dict[str, float] = {}
        """Lanes that left the registry, and when: what they had is told first."""
        self._news: dict[str, None] = {}
        """Lanes that may have something; the one that waits longest comes first."""
        self._collected_at = float("-inf")

    def ring(self, lane: str) -> None:
        self._news[lane] = None
        self._bell.set()

    def was_quiet(self, lane: str) -> None:
        """It was read, and there was nothing."""
        if lane in self._left:
            self._bell.set()

    async def join(self) -> None:
        """Take a place in every lane of the pool: what happens from now on is not missed."""
        lanes = await self._hub.registry.lanes(self._pool)
        self._hub.registry.watch(self._pool, self._bell.set)
        await self._follow(lanes)

    async def next(self, timeout_s: float) -> list[Event]:
        """At most a page per lane, and not much more than `_MOST`; empty when nothing came in time. Sets the places
        behind what it returns."""
        if self._lanes is None:
            await self.join()
        await self._follow(self._hub.registry.known(self._pool))
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
        for lane in list(islice(self._news, _MOST)):
            if len(found) >= _MOST:
                break
            del self._news[lane]  # first: what comes meanwhile rings again
            try:
                events = await self._hub.after(self._tails[lane], self.places.get(lane, self.base), _PAGE)
            except TxManagerError:
                self._news[lane] = None
                if not found:
                    raise
                break  # the places are behind what was found: it has to be told
            if events:
                self.places[lane] = place(events[-1].id)
                found += events
            if len(events) == _PAGE:
                self._news[lane] = None
        self._news = dict(self._news)  # a new one: one that was large once stays large
        if not self._news:
            await self._collect_past(found)
        if self._news or self._past:
            self._bell.set()
        self._let_go()
        if asyncio.get_running_loop().time() >= self._raise_at:
            self._raise_base()
        return sorted(found, key=lambda e: place(e.id)) if len(self._tails) > 1 else found

    async def _collect_past(self, found: list[Event]) -> None:
        for lane, at in list(islice(self._past.items(), _MOST)):
            if len(found) >= _MOST:
                return
            try:
                events = await self._hub.ledger.events(lane, place_text(at), _PAGE)
            except TxManagerError:
                if not found:
                    raise
                return
            found += events
            del self._past[lane]
            if len(events) == _PAGE:
                self._past[lane] = place(events[-1].id)

    async def _follow(self, lanes: Lanes) -> None:
        if lanes is self._lanes:
            return
        first, time = self._lanes is None, asyncio.get_running_loop().time()
        now = await self._hub.ledger.now_ms()
        if first and not self._resumed:
            self.base = (now - 1, 0)
        since = self.base if first else (self._looked - LATE_MS, 0)
        there = set(lanes)
        for lane in (*lanes, *((self._tails.keys() | self.places.keys()) - there)):
            if lane in there:
                self._left.pop(lane, None)
            else:
                self._left.setdefault(lane, time)
            if lane not in self._tails:
                self._tails[lane] = self._hub.join(lane, (now - 1, 0), time, self)
                at = self._past.pop(lane, since)
                if at != self.base:
                    self.places.setdefault(lane, at)
                if not first or self._resumed:
                    self._news[lane] = None
        self._lanes, self._looked, self._ahead_ms = lanes, now, now - 1000 * time
        self._raise_at = min(self._raise_at, time + _RAISE_EVERY_S)

    def _let_go(self) -> None:
        """Lanes that left the registry, once they were read after that."""
        for lane, since in list(self._left.items()):
            tail = self._tails[lane]
            if tail.read_at > since and lane not in self._news:
                del self._left[lane], self._tails[lane]
                self.places.pop(lane, None)
                self._hub.leave(tail, self)
            else:
                self._hub.ring(lane)

    def _raise_base(self) -> None:
        """Name no lanes any more that had nothing for a while, up to when all of them were read."""
        self._raise_at = asyncio.get_running_loop().time() + _RAISE_EVERY_S
        read_at = min((tail.read_at for tail in self._tails.values()), default=float("-inf"))
        if self._past or len(self._news) > _PAGE:
            return  # what they have was not told yet, and each would be named
        if read_at == float("-inf") or (base := (int(1000 * read_at + self._ahead_ms) - LATE_MS, 0)) <= self.base:
            return
        for lane in self._news:  # read, and not told yet
            self.places.setdefault(lane, self.base)
        self.places = {lane: at for lane, at in self.places.items() if at > base or lane in self._news}
        self.base = base

    def close(self) -> None:
        self._hub.registry.unwatch(self._bell.set)
        for tail in self._tails.values():
            self._hub.leave(tail, self)
        self._tails.clear()


class EventHub:
    def __init__(self, ledger: Ledger, poll_s: float = 0.1) -> None:
        self.ledger = ledger
        self.poll_s = poll_s
        self.log = structlog.get_logger("events")
        self.registry = Registry(ledger)
        self._tails: dict[str, _Tail] = {}
        self._pool_followers = 0
        self._due: list[tuple[float, int, _Tail]] = []
        """Tails by when they are read next; an entry counts if it is still the tail's own."""
        self._entries = itertools.count()
        self._sooner = asyncio.Event()
        """Set when something is due sooner than it seemed."""
        self._reading: asyncio.Task[None] | None = None
        self._reads: set[asyncio.Task[None]] = set()
        self._hearing: asyncio.Task[None] | None = None
        self._listening: asyncio.TimerHandle | None = None

    @property
    def pause_s(self) -> float:
        """Between two reads of a lane in which nothing happens."""
        return max(self.poll_s, len(self._tails) / _QUIET_READS_PER_S)

    @property
    def gap_s(self) -> float:
        """Between two wakes of one pool's follower."""
        return self._pool_followers / _WAKES_PER_S

    @property
    def lanes(self) -> list[str]:
        """Lanes that are being read, because somebody follows them."""
        return sorted(self._tails)

    async def parked(self, pool: str) -> list[str]:
        """Lanes of the pool that left the registry because nobody uses them."""
        return [route.lane for route in await self.ledger.parked() if route.pool == pool]

    async def parked_since(self, pool: str, base: Place) -> Sequence[str]:
        """Those that may have had something since; none where that is too short ago for a lane to be parked."""
        return await self.parked(pool) if await self.ledger.now_ms() - base[0] > FORGET_AFTER_MS else ()

    # -- who follows

    async def attach(self, lane: str) -> _Tail:
        """Somebody waits for events of this lane now."""
        if lane not in self._tails:
            time = asyncio.get_running_loop().time()
            floor = (await self.ledger.now_ms() - 1, 0)
            if lane not in self._tails:
                self._add(lane, floor, time)
        tail = self._tails[lane]
        tail.users += 1
        tail.active_at = asyncio.get_running_loop().time()
        self._plan(tail, 0.0)
        return tail

    def detach(self, tail: _Tail) -> None:
        tail.users -= 1
        if tail.users > 0 or self._tails.get(tail.lane) is not tail:
            return
        del self._tails[tail.lane]
        tail.due = float("inf")
        if self._tails:
            self._listen_soon()
        else:
            self._stop()

    def join(self, lane: str, floor: Place, time: float, follower: PoolFollower) -> _Tail:
        """One lane of a pool that is followed from this place on, taken at this time, or from an earlier one."""
        tail = self._tails.get(lane) or self._add(lane, floor, time)
        tail.users += 1
        tail.pools = (*tail.pools, follower)
        return tail

    def leave(self, tail: _Tail, follower: PoolFollower) -> None:
        tail.pools = tuple(one for one in tail.pools if one is not follower)
        self.detach(tail)

    def _add(self, lane: str, floor: Place, time: float) -> _Tail:
        tail = self._tails[lane] = _Tail(lane, floor, time)
        # Not all at once: each of many gets its own moment.
        self._plan(tail, self.poll_s + len(self._tails) / _QUIET_READS_PER_S)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all())
        self._listen_soon()
        return tail

    # -- reading

    def ring(self, lane: str) -> None:
        """Something may have happened in a lane."""
        tail = self._tails.get(lane)
        if tail is not None:
            self._plan(tail, 0.0)

    def _plan(self, tail: _Tail, pause_s: float) -> None:
        if tail.reading:
            tail.hinted = True
            return
        if pause_s <= 0:
            self._sooner.set()
        due = asyncio.get_running_loop().time() + pause_s
        if due >= tail.due:
            return  # one that is rung again and again keeps its turn
        if not self._due or due < self._due[0][0]:
            self._sooner.set()
        tail.due = due
        heapq.heappush(self._due, (due, next(self._entries), tail))

    async def _read_all(self) -> None:
        """Whatever is due, in small tasks: a lane whose server is away keeps no other waiting."""
        loop = asyncio.get_running_loop()
        while True:
            started = 0
            while self._due and self._due[0][0] <= loop.time() and len(self._reads) < _AT_ONCE:
                due, _, tail = heapq.heappop(self._due)
                if tail.due == due:
                    tail.due, tail.reading, tail.hinted = float("inf"), True, False
                    read = asyncio.create_task(self._read(tail))
                    self._reads.add(read)
                    read.add_done_callback(self._was_read)
                    started += 1
            if started:
                await asyncio.sleep(started / _READS_PER_S)
                continue
            self._sooner.clear()
            full = len(self._reads) >= _AT_ONCE
            left_s = self._due[0][0] - loop.time() if self._due and not full else 60.0
            await _rings(self._sooner, max(_TOGETHER_S, left_s))

    def _was_read(self, read: asyncio.Task[None]) -> None:
        self._reads.discard(read)
        if len(self._reads) == _AT_ONCE - 1:
            self._sooner.set()

    async def _read(self, tail: _Tail) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            events = await self.ledger.events(tail.lane, place_text(tail.cursor), _PAGE)
        except TxManagerError as error:
            self.log.warning("cannot read events", lane=tail.lane, error=str(error))
            pause_s = 5 * self.poll_s
        else:
            tail.read_at = began
            if events:
                tail.active_at = loop.time()
                tail.dispatch(events)
            for follower in tail.pools if not events else ():
                follower.was_quiet(tail.lane)
            # The longer nothing happens, the longer the next event may take to be seen without a hint.
            pause_s = min(self.pause_s, max(self.poll_s, (loop.time() - tail.active_at) / 2))
            if tail.hinted or len(events) == _PAGE:
                pause_s = 0.0
        tail.reading = False
        if self._tails.get(tail.lane) is tail:
            self._plan(tail, pause_s)

    async def after(self, tail: _Tail, at: Place, count: int) -> list[Event]:
        newer = tail.newer(at, count)
        return await self.ledger.events(tail.lane, place_text(at), count) if newer is None else newer

    # -- hints

    def _listen_soon(self) -> None:
        if self._listening is None:
            self._listening = asyncio.get_running_loop().call_later(_LISTEN_AGAIN_S, self._listen)

    def _listen(self) -> None:
        self._listening = None
        if self._hearing is not None:
            self._hearing.cancel()
        self._hearing = asyncio.create_task(self._hear(list(self._tails)))

    async def _hear(self, lanes: list[str]) -> None:
        while True:
            try:
                for lane in await self.ledger.wait_news(lanes, 60.0):
                    self.ring(lane)
            except TxManagerError as error:
                self.log.warning("cannot listen", error=str(error))
                await asyncio.sleep(1.0)

    def _stop(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        for task in (self._reading, self._hearing, *self._reads):
            if task is not None:
                task.cancel()
        self._reading = self._hearing = self._listening = None
        self._due.clear()

    @asynccontextmanager
    async def intent(self, lane: str, id: IntentId) -> AsyncIterator[IntentFollower]:
        """Every event from before this returns is in the ledger already; every later one comes from the follower."""
        tail = await self.attach(lane)
        follower = IntentFollower()
        if tail.intents is None:
            tail.intents = {}
        intents = tail.intents
        intents.setdefault(id, set()).add(follower)
        try:
            yield follower
        finally:
            followers = intents[id]
            followers.discard(follower)
            if not followers:
                del intents[id]
            self.detach(tail)

    @asynccontextmanager
    async def pool(
        self,
        pool: str,
        places: Mapping[str, Place] | None = None,
        base: Place = (0, 0),
        parked: Sequence[str] = (),
    ) -> AsyncIterator[PoolFollower]:
        """From now on, or from the places of an earlier follower; in lanes without one, and in `parked` ones, from
        `base`."""
        follower = PoolFollower(self, pool, places, base, parked)
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
        self._stop()
        self._tails.clear()


async def _rings(bell: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await bell.wait()
    except TimeoutError:
        pass
