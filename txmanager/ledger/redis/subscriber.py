"""One subscription per process: hints that a lane got work or that an intent became final.

Hints may be lost and may be late; whoever listens reads the ledger before and after. A new connection therefore
rings every bell: what was missed while it was down is found by reading.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from typing import cast

import hiredis

from txmanager.core.errors import TxManagerError
from txmanager.ledger.redis.links import Link
from txmanager.ledger.redis.wire import Address, Command, ReplyError, Wire

_RECENT = 10_000
_RECENT_S = 1.0
"""An end received less than this ago still answers: its waiter may have been between its read and its wait."""
_PING_S = 5.0
"""A connection that answers no ping for this long is dead, whatever TCP believes."""
_NOTHING = object()


class _Connection(asyncio.Protocol):
    """The receiving end of SUBSCRIBE."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        self._reader = hiredis.Reader(notEnoughData=_NOTHING, replyError=ReplyError)
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop has transports of its own

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not _NOTHING:
            if isinstance(reply, list) and len(reply) == 3:
                self._subscriber.received(*reply)
            else:
                self._subscriber.ponged()

    def connection_lost(self, error: Exception | None) -> None:
        self._subscriber.lost(self)

    def send(self, command: Command) -> None:
        if self.transport is not None:
            self.transport.write(hiredis.pack_command(command))  # type: ignore[arg-type]


def _answer(future: asyncio.Future[bytes], word: bytes = b"") -> None:
    if not future.done():
        future.set_result(word)


async def _answered(future: asyncio.Future[bytes], timeout_s: float) -> bytes:
    """Its answer, or nothing once the time is over. Each lone intent waits here twice: a timer costs less than an
    `asyncio.timeout`."""
    timer = asyncio.get_running_loop().call_later(timeout_s, _answer, future)
    try:
        return await future
    finally:
        timer.cancel()


class Subscriber:
    def __init__(self, link: Link, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._wanted: set[str] = set()
        self._subscribed: set[str] = set()
        self._rung: set[str] = set()
        self._carried: dict[str, bytes] = {}
        """The entry that came with a ring, by channel. A second ring before it is asked for takes it away."""
        self._bells: dict[asyncio.Future[bytes], frozenset[str]] = {}
        self._followed: Collection[str] = frozenset()
        self._news: set[str] = set()
        self._news_bell = asyncio.Event()
        self._recent: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._finals: dict[str, set[asyncio.Future[bytes]]] = {}
        self._confirming: dict[str, asyncio.Event] = {}
        self._pinging: asyncio.TimerHandle | None = None
        self._alive = False
        self._closed = False

    # -- waiting

    async def wake(self, wanted: frozenset[str], timeout_s: float) -> set[str]:
        """The channels that rang since they were last returned."""
        await self._subscribe(wanted)
        if not (wanted & self._rung):
            bell: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._bells[bell] = wanted
            try:
                await _answered(bell, timeout_s)
            finally:
                del self._bells[bell]
        rung = wanted & self._rung
        self._rung -= rung
        return set(rung)

    def carried(self, channel: str) -> bytes:
        """What came with the last ring of a channel, once; nothing when it rang several times."""
        return self._carried.pop(channel, b"")

    async def news(self, wanted: Collection[str], timeout_s: float) -> set[str]:
        """The channels on which anything was said since they were last returned, or that are listened to only now.
        Beside `wake`, which loses nothing."""
        if wanted is not self._followed:
            await self._subscribe(frozenset(wanted))
            new = self._subscribed.intersection(wanted).difference(self._followed)
            self._followed, self._news = wanted, self._news & set(wanted) | new
        if not self._news:
            self._news_bell.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news_bell.wait()
            except TimeoutError:
                pass
        news, self._news = self._news, set()
        return news

    def drop(self, channels: Collection[str]) -> None:
        """Nobody here waits for these any more; whoever does asks for them again."""
        gone = self._wanted.intersection(channels)
        self._wanted -= gone
        self._subscribed -= gone
        self._rung -= gone
        for channel in gone:
            self._carried.pop(channel, None)
        if gone and self._connection is not None:
            self._connection.send(("UNSUBSCRIBE", *gone))

    async def final(self, channel: str, id: str, timeout_s: float) -> bytes:
        """What was told of the end, if anything. Returns at once when the subscription is new: the caller reads again,
        then truly waits."""
        if channel not in self._subscribed:
            await self._confirmed(channel, timeout_s)
            return b""
        loop = asyncio.get_running_loop()
        at, told = self._recent.get(id, (float("-inf"), b""))
        if loop.time() - at < _RECENT_S:
            return told
        future: asyncio.Future[bytes] = loop.create_future()
        self._finals.setdefault(id, set()).add(future)
        try:
            return await _answered(future, timeout_s)
        finally:
            waiting = self._finals[id]
            waiting.discard(future)
            if not waiting:
                del self._finals[id]

    async def _confirmed(self, channel: str, timeout_s: float) -> None:
        await self._subscribe(frozenset((channel,)))
        confirmed = self._confirming.setdefault(channel, asyncio.Event())
        try:
            async with asyncio.timeout(timeout_s):
                await confirmed.wait()
        except TimeoutError:
            pass

    # -- receiving

    def received(self, kind: bytes, channel: bytes, message: object) -> None:
        self._alive = True
        name = channel.decode()
        if kind == b"subscribe":
            self._subscribed.add(name)
            self._ring(name)
            self._tell(name)
            if (waiting := self._confirming.pop(name, None)) is not None:
                waiting.set()
        elif kind == b"message" and isinstance(message, bytes):
            self._tell(name)
            if message in (b"append", b"ask"):
                self._ring(name)
            elif message.startswith(b"entry\n"):
                self._ring(name, message[6:])
            else:
                self._ended(message.split(b"\n"))

    def ponged(self) -> None:
        self._alive = True

    def _ping(self) -> None:
        self._pinging = None
        connection = self._connection
        if connection is None or connection.transport is None:
            return
        if not self._alive:
            connection.transport.abort()
            return
        self._alive = False
        connection.send(("PING",))
        self._pinging = asyncio.get_running_loop().call_later(_PING_S, self._ping)

    def _ring(self, channel: str, entry: bytes = b"") -> None:
        if entry and channel not in self._rung:
            self._carried[channel] = entry
        else:
            self._carried.pop(channel, None)
        self._rung.add(channel)
        for bell, wanted in self._bells.items():
            if channel in wanted:
                _answer(bell)

    def _tell(self, channel: str) -> None:
        if channel in self._followed:
            self._news.add(channel)
            self._news_bell.set()

    def _ended(self, lines: list[bytes]) -> None:
        """Ids, some followed by their final record."""
        for line, following in zip(lines, [*lines[1:], b""], strict=True):
            if not line.startswith(b"> "):
                self._finished(line.decode(errors="replace"), following[2:] if following.startswith(b"> ") else b"")

    def _finished(self, id: str, record: bytes = b"") -> None:
        waiting = self._finals.get(id)
        if waiting is None:
            now = asyncio.get_running_loop().time()
            self._recent[id] = now, record
            self._recent.move_to_end(id)
            while len(self._recent) > _RECENT or next(iter(self._recent.values()))[0] < now - _RECENT_S:
                self._recent.popitem(last=False)
            return
        for future in waiting:
            _answer(future, record)

    def lost(self, connection: _Connection) -> None:
        """The connection is gone: wake everybody, so that they read instead of waiting for hints."""
        if connection is not self._connection:
            return
        self._connection = None
        self._subscribed.clear()
        if self._pinging is not None:
            self._pinging.cancel()
            self._pinging = None
        for channel in self._wanted:
            self._ring(channel)
            self._tell(channel)
        for id in list(self._finals):
            self._finished(id)
        if not self._closed:
            self._connect()

    # -- connecting

    async def _subscribe(self, channels: frozenset[str]) -> None:
        new = channels - self._wanted
        self._wanted.update(new)
        if self._connection is None:
            self._connect()
        elif new:
            self._connection.send(("SUBSCRIBE", *new))

    def _connect(self) -> None:
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        pause_s = 0.05
        try:
            while not self._closed:
                if await self._open_any():
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(1.0, pause_s * 2)
        finally:
            self._connecting = None

    async def _open_any(self) -> bool:
        """In a cluster every node passes every message on: one that is away must not cut us off."""
        try:
            addresses = await self._link.primaries()
        except TxManagerError:
            return False
        for address in addresses:
            try:
                await self._open(address)
            except (TxManagerError, OSError, TimeoutError):
                continue
            return self._connection is not None
        return False

    async def _open(self, address: Address) -> None:
        probe = await Wire.open(address, self._timeout_s)  # proves address and credentials before we go quiet
        probe.abort()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._timeout_s):
            _, connection = await loop.create_connection(
                lambda: _Connection(self), address.host, address.port, ssl=address.tls_context()
            )
        for command in address.greeting():
            connection.send(command)
        self._connection = connection
        self._alive = True
        if self._wanted:
            connection.send(("SUBSCRIBE", *self._wanted))
        if connection.transport is None or connection.transport.is_closing():
            self._connection = None  # lost before we were told whose it is: `lost` did not know it
            raise OSError("closed at once")
        self._ping()

    async def close(self) -> None:
        self._closed = True
        if self._pinging is not None:
            self._pinging.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.abort()
