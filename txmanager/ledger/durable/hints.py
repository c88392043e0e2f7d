"""Hints from lanes, over one socket for each. A lane that sleeps keeps its sockets and costs nothing.

A new socket rings, and so does a lost one: what was missed while there was none is found by reading.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import quote

from txmanager.core.errors import TxManagerError
from txmanager.ledger.bells import Bells
from txmanager.ledger.durable.address import Address
from txmanager.ledger.durable.websocket import WebSocket, dial

_PING_S = 20.0
_QUIET_S = 120.0
"""A lane that nobody waited for during this time needs no socket."""


class Hints:
    def __init__(self, address: Address, lane_object: Callable[[str], str], timeout_s: float) -> None:
        self._address = address
        self._lane_object = lane_object
        self._timeout_s = timeout_s
        self._tls = address.tls_context()
        self._bells = Bells()
        self._listening: dict[str, asyncio.Task[None]] = {}
        self._open: dict[str, asyncio.Event] = {}
        self._wanted: dict[str, float] = {}

    async def wake(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        for lane in lanes:
            self._listen(lane)
        return await self._bells.wake(lanes, timeout_s)

    async def news(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        for lane in lanes:
            self._listen(lane)
        return await self._bells.news(lanes, timeout_s)

    async def final(self, lane: str, id: str, timeout_s: float) -> None:
        """Returns at once when the socket is new: the caller reads again, then truly waits."""
        self._listen(lane)
        opened = self._open[lane]
        if opened.is_set():
            await self._bells.final(id, timeout_s)
            return
        try:
            async with asyncio.timeout(timeout_s):
                await opened.wait()
        except TimeoutError:
            pass

    def _listen(self, lane: str) -> None:
        self._wanted[lane] = asyncio.get_running_loop().time()
        if lane not in self._listening:
            self._open[lane] = asyncio.Event()
            self._listening[lane] = asyncio.create_task(self._keep(lane))

    async def _keep(self, lane: str) -> None:
        """Hold a socket for as long as somebody waits for this lane, and open another when it is lost."""
        pause_s, opened = 0.05, self._open[lane]
        try:
            while asyncio.get_running_loop().time() - self._wanted[lane] < _QUIET_S:
                with suppress(TxManagerError, OSError, EOFError, TimeoutError):
                    await self._hear(lane, opened)
                if opened.is_set():
                    pause_s = 0.05
                    opened.clear()
                    self._bells.ring(lane)
                    self._bells.tell(lane)
                    self._bells.all_finished()
                await asyncio.sleep(pause_s)
                pause_s = min(2.0, pause_s * 2)
        finally:
            del self._listening[lane], self._open[lane]

    async def _hear(self, lane: str, opened: asyncio.Event) -> None:
        socket = await self._socket(lane)
        try:
            opened.set()
            self._bells.ring(lane)
            self._bells.tell(lane)
            silent = False
            while True:
                try:
                    async with asyncio.timeout(_PING_S):
                        message = await socket.receive()
                except TimeoutError:
                    if silent or asyncio.get_running_loop().time() - self._wanted[lane] >= _QUIET_S:
                        return
                    silent = True
                    socket.ping()
                    continue
                silent = False
                self._bells.tell(lane)
                for hint in message.split("\n") if message else ():
                    if hint == "wake":
                        self._bells.ring(lane)
                    else:
                        self._bells.finished(hint)
        finally:
            socket.close()

    async def _socket(self, lane: str) -> WebSocket:
        address = self._address
        async with asyncio.timeout(self._timeout_s):
            socket = await dial(address.host, address.port, self._tls, self._timeout_s)
            query = f"?object={quote(self._lane_object(lane), safe='')}"
            try:
                await socket.upgrade(address.head("GET", "/ledger/v1/hints", query, b"", _now))
            except BaseException:
                socket.close()
                raise
        return socket

    async def close(self) -> None:
        tasks = list(self._listening.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _now() -> int:
    return time.time_ns() // 1_000_000
