"""A TCP proxy that fails on purpose: replies lost after execution, half-written replies, silence, delay.

In RESP mode it knows which reply belongs to which command, so "the reply of the next EVALSHA is lost" means exactly
that, also inside a pipeline. Silence holds bytes back as a real network does: after `heal` they arrive late, unless
the connections are dropped. With `tls` it speaks TLS to the client and plain TCP to the server.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from tests.servers.resp import command_words, message_end
from tests.servers.server import HOST

GREETINGS = frozenset({b"HELLO", b"AUTH", b"CLIENT", b"SELECT", b"READONLY", b"PING", b"COMMAND", b"CLUSTER", b"INFO"})
"""What client libraries say by themselves; a fault aimed at "the next command" does not hit these."""

Words = list[bytes]
Direction = Literal["to_server", "to_client"]


@dataclass(eq=False)
class Fault:
    """One armed accident. `fired` is set once it happened."""

    what: Literal["cut_reply", "half_reply", "drop_request"]
    matches: Callable[[Words], bool]
    skip: int = 0
    fired: asyncio.Event = field(default_factory=asyncio.Event)
    words: Words = field(default_factory=list)
    """The command it hit."""


class FaultProxy:
    """`async with FaultProxy(host, port) as proxy`: connect to `proxy.url` (or `proxy.port`) instead of the server."""

    def __init__(self, host: str, port: int, *, resp: bool = True, tls: ssl.SSLContext | None = None) -> None:
        self._target = host, port
        self._tls = tls
        self._resp = resp
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._armed: list[Fault] = []
        self._open: dict[Direction, asyncio.Event] = {"to_server": asyncio.Event(), "to_client": asyncio.Event()}
        self._delay: dict[Direction, float] = {"to_server": 0.0, "to_client": 0.0}
        self._refusing = False
        self.port = 0
        self.commands: list[bytes] = []
        """Names of all commands that went through, greetings included; in raw mode one entry per chunk."""

    @property
    def url(self) -> str:
        return f"{'rediss' if self._tls else 'redis'}://{HOST}:{self.port}/0"

    # -- accidents that happen once

    def cut_reply(self, command: str | None = None, *, skip: int = 0) -> Fault:
        """The next matching command is executed; its reply is lost and the connection breaks."""
        return self._arm(Fault("cut_reply", _matcher(command), skip))

    def half_reply(self, command: str | None = None, *, skip: int = 0) -> Fault:
        """The same, but the first half of the reply arrives."""
        return self._arm(Fault("half_reply", _matcher(command), skip))

    def drop_request(self, command: str | None = None, *, skip: int = 0) -> Fault:
        """The next matching command never reaches the server; the connection breaks."""
        return self._arm(Fault("drop_request", _matcher(command), skip))

    def _arm(self, fault: Fault) -> Fault:
        self._armed.append(fault)
        return fault

    def disarm(self) -> None:
        self._armed.clear()

    # -- weather that lasts

    def blackhole(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Nothing arrives any more in the named directions; connections stay open."""
        if to_server:
            self._open["to_server"].clear()
        if to_client:
            self._open["to_client"].clear()

    def delay(self, seconds: float, *, to_server: bool = True, to_client: bool = False) -> None:
        self._delay["to_server"] = seconds if to_server else 0.0
        self._delay["to_client"] = seconds if to_client else 0.0

    def refuse(self) -> None:
        """Break all connections, and each new one at once."""
        self._refusing = True
        self.disconnect()

    def heal(self, *, drop: bool = False) -> None:
        """End silence, delay and refusal. `drop` forgets what was held back; otherwise it arrives now."""
        if drop:
            self.disconnect()
        self._refusing = False
        self._delay = {"to_server": 0.0, "to_client": 0.0}
        for gate in self._open.values():
            gate.set()

    def disconnect(self) -> None:
        """Break every connection now."""
        for link in list(self._links):
            link.abort()

    # -- running

    async def start(self) -> Self:
        self.heal()
        self._server = await asyncio.start_server(self._accept, HOST, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self.disconnect()
            await asyncio.gather(*(link.ended.wait() for link in list(self._links)))
            self._server = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        try:
            upstream = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(self, (reader, writer), upstream)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)

    async def pass_through(self, direction: Direction) -> None:
        """Wait for the weather."""
        if self._delay[direction]:
            await asyncio.sleep(self._delay[direction])
        await self._open[direction].wait()

    def fault_for(self, words: Words) -> Fault | None:
        self.commands.append(words[0].upper() if words else b"")
        for fault in self._armed:
            if fault.matches(words):
                if fault.skip:
                    fault.skip -= 1
                    return None
                self._armed.remove(fault)
                fault.words = words
                return fault
        return None

    def split(self, buffer: bytearray) -> Iterator[bytes]:
        """Cut whole messages off the front of the buffer; in raw mode all there is."""
        if not self._resp:
            if buffer:
                yield bytes(buffer)
                buffer.clear()
            return
        while buffer and (end := message_end(buffer)) is not None:
            yield bytes(buffer[:end])
            del buffer[:end]

    def words(self, message: bytes) -> Words:
        return command_words(message) if self._resp else [message]


class _Link:
    """One client connection and its twin to the server."""

    def __init__(
        self,
        proxy: FaultProxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._awaited: deque[Fault | None] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self.ended = asyncio.Event()

    async def run(self) -> None:
        self._tasks = [asyncio.create_task(self._requests()), asyncio.create_task(self._replies())]
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.abort()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.ended.set()

    def abort(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._to_client.transport.abort()
        self._to_server.transport.abort()

    async def _requests(self) -> None:
        buffer = bytearray()
        while chunk := await _read(self._from_client):
            buffer += chunk
            for message in self._proxy.split(buffer):
                fault = self._proxy.fault_for(self._proxy.words(message))
                await self._proxy.pass_through("to_server")
                if fault is not None and fault.what == "drop_request":
                    fault.fired.set()
                    return
                self._awaited.append(fault)
                self._to_server.write(message)
            await _drain(self._to_server)

    async def _replies(self) -> None:
        buffer = bytearray()
        while chunk := await _read(self._from_server):
            buffer += chunk
            for message in self._proxy.split(buffer):
                pushed = message.startswith(b">")
                fault = self._awaited.popleft() if self._awaited and not pushed else None
                await self._proxy.pass_through("to_client")
                if fault is not None:
                    if fault.what == "half_reply":
                        self._to_client.write(message[: len(message) // 2])
                        await _drain(self._to_client)
                        # An orderly end: a reset could overtake the half that was sent.
                        self._to_client.close()
                    fault.fired.set()
                    return
                self._to_client.write(message)
            await _drain(self._to_client)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1 << 16)
    except OSError:
        return b""


async def _drain(writer: asyncio.StreamWriter) -> None:
    try:
        await writer.drain()
    except OSError:
        writer.transport.abort()


def _matcher(command: str | None) -> Callable[[Words], bool]:
    """A command by its name, or any that is not a greeting. An upper-cased prefix is enough: EVAL means EVALSHA too."""
    if command is None:
        return lambda words: bool(words) and words[0].upper() not in GREETINGS
    wanted = command.upper().encode()
    return lambda words: bool(words) and words[0].upper().startswith(wanted)
