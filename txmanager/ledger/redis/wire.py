"""One connection to one Redis server that pipelines by itself: calls of one loop turn leave in one write.

A call is a list of commands whose replies belong together. Nothing is ever resent here: a broken connection fails
every call on it with `Unavailable`, whether or not the server ran it; the ledger repeats, because its scripts may be
run twice. A wire with `replicas` ends each batch with WAIT and hands out replies only when that many acknowledged.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import hiredis

from txmanager.core.errors import Misconfigured, Unavailable, Unconfirmed

Command = tuple[str | bytes | int, ...]
_NOTHING = object()
_pack: Callable[[Command], bytes] = hiredis.pack_command  # type: ignore[assignment]  # its stub knows 1-tuples only


class ReplyError(Exception):
    """An error reply; `str()` is the server's text, its first word the kind."""

    @property
    def kind(self) -> str:
        return str(self).partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and how to greet it."""

    host: str
    port: int
    username: str | None = None
    password: str | None = None
    db: int = 0
    tls: bool = False

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"

    def at(self, host: str, port: int) -> Address:
        return Address(host, port, self.username, self.password, self.db, self.tls)

    def tls_context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context() if self.tls else None

    def greeting(self) -> list[Command]:
        commands: list[Command] = []
        if self.password:
            commands.append(("AUTH", *((self.username,) if self.username else ()), self.password))
        if self.db:
            commands.append(("SELECT", self.db))
        return commands


class _Call:
    __slots__ = ("commands", "deadline", "future", "replies", "want")

    def __init__(self, commands: Sequence[Command], future: asyncio.Future[list[Any]], deadline: float) -> None:
        self.commands = commands
        self.future = future
        self.deadline = deadline
        self.want = len(commands)
        self.replies: list[Any] = []


class Wire(asyncio.Protocol):
    def __init__(self, address: Address, timeout_s: float, replicas: int = 0, wait_ms: int = 500) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._replicas = replicas
        self._wait_ms = wait_ms
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=_NOTHING, replyError=ReplyError, protocolError=ReplyError)
        self._transport: asyncio.Transport | None = None
        self._queued: list[_Call] = []
        self._sent: deque[_Call] = deque()
        self._batch: list[_Call] = []
        """Calls of the open batch whose replies wait for the WAIT that ends it."""
        self._flushing = False
        self._watch: asyncio.TimerHandle | None = None
        self.closed = False

    @classmethod
    async def open(cls, address: Address, timeout_s: float, replicas: int = 0, wait_ms: int = 500) -> Wire:
        loop = asyncio.get_running_loop()
        wire = cls(address, timeout_s, 0, wait_ms)
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: wire, address.host, address.port, ssl=address.tls_context())
        except (OSError, TimeoutError) as error:
            raise Unavailable(f"cannot reach Redis at {address!r}: {error or 'timed out'}") from None
        greeting = address.greeting()
        if greeting:
            for reply in await wire._send(greeting):
                if isinstance(reply, ReplyError):
                    wire.abort()
                    raise Misconfigured(f"Redis at {address!r} refused the credentials or database: {reply}")
        wire._replicas = replicas  # only now: a WAIT behind refused credentials would hide the refusal
        return wire

    def call(self, commands: Sequence[Command]) -> asyncio.Future[list[Any]]:
        return self._send(commands)

    def _send(self, commands: Sequence[Command]) -> asyncio.Future[list[Any]]:
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        if self.closed:
            future.set_exception(Unavailable(f"the connection to Redis at {self.address!r} is closed"))
            return future
        self._queued.append(_Call(commands, future, self._loop.time() + self._timeout_s))
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._check_deadline)
        return future

    def _flush(self) -> None:
        self._flushing = False
        if self._transport is None or self.closed or self._batch:
            return  # an open batch: the next one leaves when its WAIT was answered
        calls, self._queued = self._queued, []
        if not calls:
            return
        packed = [_pack(command) for call in calls for command in call.commands]
        self._sent.extend(calls)
        if self._replicas:
            packed.append(_pack(("WAIT", self._replicas, self._wait_ms)))
            self._batch = calls
            self._sent.append(_Call([()], self._loop.create_future(), calls[0].deadline))
        self._transport.write(b"".join(packed))

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has transports of its own
        if self._queued:
            self._flush()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not _NOTHING:
                self._accept(reply)
        except ReplyError as error:
            self._fail(f"unreadable reply: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(str(error) if error else "closed by the server")

    # -- inside

    def _accept(self, reply: object) -> None:
        if not self._sent:
            self._fail("a reply nobody asked for")
            return
        call = self._sent[0]
        call.replies.append(reply)
        if len(call.replies) < call.want:
            return
        self._sent.popleft()
        if not self._replicas:
            if not call.future.done():
                call.future.set_result(call.replies)
        elif not self._sent:
            self._confirm(reply)

    def _confirm(self, acknowledged: object) -> None:
        """The WAIT of the open batch was answered: its replies may be believed, or not."""
        batch, self._batch = self._batch, []
        for call in batch:
            if call.future.done():
                continue
            confirmed = isinstance(acknowledged, int) and acknowledged >= self._replicas
            if confirmed or all(isinstance(r, ReplyError) and r.kind == "NOSCRIPT" for r in call.replies):
                call.future.set_result(call.replies)  # a script that did not run has nothing to confirm
            else:
                call.future.set_exception(
                    Unconfirmed(
                        f"{acknowledged} of {self._replicas} replicas acknowledged within {self._wait_ms} ms; "
                        "the outcome is unknown, retry the same key"
                    )
                )
        if self._queued:
            self._flush()

    def _check_deadline(self) -> None:
        self._watch = None
        oldest = self._sent[0] if self._sent else self._queued[0] if self._queued else None
        if oldest is None or self.closed:
            return
        left = oldest.deadline - self._loop.time()
        if left <= 0:
            self._fail(f"no reply within {self._timeout_s} s")
        else:
            self._watch = self._loop.call_later(left, self._check_deadline)

    def _fail(self, why: str) -> None:
        if self.closed:
            return
        self.closed = True
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            self._transport.abort()
        error = f"lost the connection to Redis at {self.address!r}: {why}; the outcome is unknown, retry"
        for call in (*self._sent, *self._batch, *self._queued):
            if not call.future.done():
                call.future.set_exception(Unavailable(error))
                call.future.exception()  # a cancelled caller may never look
        self._sent.clear()
        self._queued.clear()
        self._batch.clear()

    def abort(self) -> None:
        self._fail("closed here")
