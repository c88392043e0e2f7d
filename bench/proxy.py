"""A TCP proxy that adds a network's delay: every chunk arrives half of the round trip later, in order, both ways.

    python -m bench.proxy TARGET_PORT RTT_MS

It prints its port.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop


class _Pipe(asyncio.Protocol):
    """One end of a connection; what it hears, the other end says later."""

    def __init__(self, one_way_s: float) -> None:
        self._one_way_s = one_way_s
        self._loop = asyncio.get_running_loop()
        self._early: list[bytes] = []
        self.transport: Any = None
        self.other: _Pipe | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._loop.call_later(self._one_way_s, self._pass_on, data)

    def _pass_on(self, data: bytes) -> None:
        assert self.other is not None
        if self.other.transport is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self._loop.call_later(self._one_way_s, self.other.transport.close)


class _Front(_Pipe):
    def __init__(self, target: int, one_way_s: float) -> None:
        super().__init__(one_way_s)
        self._target = target

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._task = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        back = _Pipe(self._one_way_s)
        back.other = self
        self.other = back
        await self._loop.create_connection(lambda: back, "127.0.0.1", self._target)
        for data in self._early:
            back.transport.write(data)


async def serve(target: int, rtt_s: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Front(target, rtt_s / 2), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
