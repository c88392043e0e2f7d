"""Server-sent events of an intent or of a pool, resumable by `Last-Event-ID`, bounded in number and in memory.

An intent's stream begins with what happened so far and ends with the final state; a pool's stream begins now. A
client that does not read is cut off; it comes back with its last id and goes on there.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

import orjson
import structlog

from txmanager.api.auth import Caller
from txmanager.api.call import Answering, Call, Reply, Send
from txmanager.api.intents import Intents
from txmanager.api.metrics import ApiMetrics
from txmanager.api.problems import TooManyStreams
from txmanager.core.audit import ALL_TENANTS
from txmanager.core.errors import InvalidInput, TxManagerError
from txmanager.core.models import Event, Record
from txmanager.core.positions import Place, place, place_text
from txmanager.runtime.deliver.events import LATE_MS, EventHub, PoolFollower, event_json, lane_mark
from txmanager.runtime.manager import TxManager

HEARTBEAT_S = 15.0
_PLACE = re.compile(r"[0-9]{1,16}-[0-9]{1,16}\Z")
_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
Chunks = AsyncIterator[bytes]


class Streams:
    """At most `most` at once, and `most_per_token` of them with one token: one caller leaves room for the others."""

    def __init__(
        self,
        manager: TxManager,
        hub: EventHub,
        intents: Intents,
        metrics: ApiMetrics,
        most: int,
        most_per_token: int,
    ) -> None:
        self._manager = manager
        self._hub = hub
        self._intents = intents
        self._metrics = metrics
        self._most = most
        self._most_per_token = most_per_token
        self._open = 0
        self._of_token: Counter[str] = Counter()
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger("api")

    def stop(self) -> None:
        """End every stream, so that a stop need not wait for them; clients resume elsewhere."""
        self._stopping.set()

    async def intent(self, call: Call) -> Answering:
        record = await self._intents.find(call)
        after = _intent_place(_last_id(call))
        if record.status.final and after is not None and after >= (record.updated_at, 0):
            return Reply(204, b"", [])  # all was said; a browser stops asking
        return self.open(call, self._intent_events(record, after))

    async def pool(self, call: Call) -> Answering:
        pool = self._intents.pool_of(call.caller, call.path("pool"))
        given = _last_id(call)
        lanes = await self._intents.within(self._hub.registry.lanes(pool))
        place = None if given is None else await self._intents.within(self._place(pool, given, lanes))
        everybody = call.caller.tenant == ALL_TENANTS and "tenant" not in call.query
        return self.open(call, self._pool_events(pool, None if everybody else call.tenant, place))

    async def _place(self, pool: str, given: str, lanes: Sequence[str]) -> PoolPlace:
        """Of lanes that left the registry since, too: what they had is told first."""
        marks = _unpack(given)
        newest = max(map(place, marks.values()), default=(0, 0))  # an id of release 0.1.0 names every lane there was
        base = place(marks[""]) if "" in marks else (max(0, newest[0] - LATE_MS), 0)
        parked = await self._hub.parked_since(pool, base)
        if not parked and marks.keys() - set(map(lane_mark, lanes)) - {""}:
            lanes = (*lanes, *await self._hub.parked(pool))
        places = {lane: place(marks[lane_mark(lane)]) for lane in (*lanes, *parked) if lane_mark(lane) in marks}
        return PoolPlace(places, base, parked)

    def open(self, call: Call, chunks: Chunks) -> Stream:
        self.check_place(call.caller)
        return Stream(self, chunks)

    def check_place(self, caller: Caller) -> None:
        """`TooManyStreams` where there is no place for another one."""
        if self._of_token[caller.name] >= self._most_per_token:
            raise TooManyStreams(f"token {caller.name!r} has all its {self._most_per_token} streams open")
        if self._open >= self._most:
            raise TooManyStreams(f"all {self._most} places for streams are taken")

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        self._open += 1
        self._of_token[caller.name] += 1
        self._metrics.streams.inc()
        try:
            yield
        finally:
            self._open -= 1
            self._of_token[caller.name] -= 1
            self._metrics.streams.dec()

    async def _intent_events(self, record: Record, after: Place | None) -> Chunks:
        async with self._hub.intent(record.lane, record.id) as follower:
            sent = after or (record.created_at - 1, 0)
            newest = await self._manager.read(record.id) or record
            past, complete = await self._hub.replay(record.lane, record.id, sent)
            for event in past:
                sent = place(event.id)
                yield _chunk(place_text(sent), event)
                if event.status.final:
                    return
            if (newest.status.final or not complete) and (newest.updated_at, 0) > sent:
                # the ledger no longer has the events that led here: tell where the intent stands
                sent = (newest.updated_at, 0)
                yield _chunk(place_text(sent), _as_event(newest))
            if newest.status.final:
                return
            while True:
                events = await follower.next(HEARTBEAT_S)
                if not events:
                    yield b":\n\n"
                for event in events:
                    if place(event.id) > sent:
                        sent = place(event.id)
                        yield _chunk(place_text(sent), event)
                    if event.status.final:
                        return

    async def _pool_events(self, pool: str, tenant: str | None, at: PoolPlace | None) -> Chunks:
        loop = asyncio.get_running_loop()
        quiet_since = loop.time()
        resumed = (at.places, at.base, at.parked) if at is not None else ()
        async with self._hub.pool(pool, *resumed) as follower:
            await follower.join()
            yield f"id: {_pack(follower)}\n\n".encode()
            while True:
                try:
                    events = await follower.next(HEARTBEAT_S)
                except TxManagerError:
                    events = []
                    await asyncio.sleep(1.0)
                shown = [event for event in events if tenant in (None, event.intent.tenant)]
                if shown:
                    # one id per page: only behind the whole page is every lane's place known
                    id = _pack(follower)
                    yield b"".join([_chunk(id if e is shown[-1] else "", e, tenant=tenant is None) for e in shown])
                    quiet_since = loop.time()
                elif loop.time() - quiet_since >= HEARTBEAT_S:
                    yield b":\n\n"
                    quiet_since = loop.time()


@dataclass(frozen=True, slots=True)
class PoolPlace:
    """Where an earlier stream of a pool stood."""

    places: Mapping[str, Place]
    base: Place
    """In lanes without a place."""
    parked: Sequence[str] = ()
    """Lanes that left the registry, and may have had something since."""


@dataclass(slots=True)
class Stream:
    """Sends chunks until they end, the client is gone (or cut off: it does not read), or the server stops."""

    _streams: Streams
    _chunks: Chunks
    status: int = 200

    async def send(self, call: Call | None, send: Send) -> None:
        assert call is not None
        with self._streams.place(call.caller):
            await self._send_until_ended(call, send)

    async def _send_until_ended(self, call: Call, send: Send) -> None:
        streams = self._streams
        ends = [asyncio.ensure_future(call.disconnected()), asyncio.ensure_future(streams._stopping.wait())]
        sending = asyncio.ensure_future(self._send(send))
        try:
            await asyncio.wait({sending, *ends}, return_when=asyncio.FIRST_COMPLETED)
            failure = sending.exception() if sending.done() else None
            if failure is not None and not isinstance(failure, TxManagerError):
                streams._log.error("stream failed", exc_info=failure)
            if not ends[0].done():
                if not sending.done():
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)
                await send({"type": "http.response.body", "body": b""})
        finally:
            for task in (sending, *ends):
                task.cancel()
            await asyncio.gather(sending, *ends, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b"retry: 2000\n\n", "more_body": True})
        async with aclosing(self._chunks) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})


def _chunk(id: str, event: Event, *, tenant: bool = False) -> bytes:
    line = b"id: " + id.encode() + b"\n" if id else b""
    return line + b"event: intent\ndata: " + orjson.dumps(event_json(event, tenant=tenant)) + b"\n\n"


def _as_event(record: Record) -> Event:
    outcome = record.outcome
    code = str(outcome.error["code"]) if outcome is not None and outcome.error else None
    tx_hash = outcome.tx_hash if outcome is not None else None
    return Event(f"{record.updated_at}-0", record.id, record.lane, record.status, record.updated_at, tx_hash, code)


def _last_id(call: Call) -> str | None:
    given = call.headers.get(b"last-event-id", b"").decode("latin-1") or call.query.get("last_event_id")
    return given or None


def _intent_place(text: str | None) -> Place | None:
    if text is None:
        return None
    if not _PLACE.match(text):
        raise InvalidInput("Last-Event-ID", "is not an id of this stream; send back the last one as it was, or none")
    return place(text)


def _pack(follower: PoolFollower) -> str:
    """Where it stands in each lane that had events of late; under the empty name, in all others."""
    marks = {lane_mark(lane): place_text(at) for lane, at in follower.places.items()}
    marks[""] = place_text(follower.base)
    return base64.urlsafe_b64encode(orjson.dumps(marks)).decode().rstrip("=")


def _unpack(text: str) -> dict[str, str]:
    try:
        marks = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if isinstance(marks, dict) and all(isinstance(at, str) and _PLACE.match(at) for at in marks.values()):
            return marks
    except ValueError:
        pass
    raise InvalidInput("Last-Event-ID", "is not an id of this stream; send back the last one as it was, or none")
