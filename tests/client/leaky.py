"""An HTTP proxy on which every third answer is lost: the request was carried out, the connection breaks.

Which of each three is drawn anew: a caller that always asks in the same rhythm is not hit at the same place for ever.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Self

HOST = "127.0.0.1"


class LeakyProxy:
    def __init__(self, target: int, *, every: int = 3) -> None:
        self._target = target
        self._every = every
        self._rng = random.Random(7)
        self._doomed = self._rng.randrange(every)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.answers = 0
        self.lost = 0

    async def start(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, to_server}
        self._writers |= both
        ways = [
            asyncio.create_task(self._requests(reader, to_server)),
            asyncio.create_task(self._answers(from_server, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for one in both:
                one.transport.abort()
            self._writers -= both

    async def _requests(self, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(1 << 16):
                to_server.write(chunk)
                await to_server.drain()

    async def _answers(self, from_server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await from_server.read(1 << 16):
                if chunk.startswith(b"HTTP/1.1 "):
                    place = self.answers % self._every
                    self.answers += 1
                    doomed = place == self._doomed
                    if place == self._every - 1:
                        self._doomed = self._rng.randrange(self._every)
                    if doomed:
                        self.lost += 1
                        return
                writer.write(chunk)
                await writer.drain()


class CountingProxy(LeakyProxy):
    """Loses nothing, and counts the answers by their status."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.statuses: Counter[str] = Counter()

    async def _answers(self, from_server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await from_server.read(1 << 16):
                if chunk.startswith(b"HTTP/1.1 "):
                    self.statuses[chunk[9:12].decode()] += 1
                writer.write(chunk)
                await writer.drain()
