"""A real node behind a liar: every answer passes through a function of the test's own, which may change it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson

Lie = Callable[[str, Any, dict[str, Any]], dict[str, Any]]
"""(method, parameters, the node's answer) to the answer that is told: an object with `result` or `error`."""


def honest(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
    return answer


class Liar:
    def __init__(self, target: str) -> None:
        self._target = target
        self.lie: Lie = honest
        self.away = False
        self.told = 0
        """How many answers were changed."""
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, http: httpx.AsyncClient, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                request = orjson.loads(await reader.readexactly(size))
                if self.away:
                    return
                many = request if isinstance(request, list) else [request]
                answers = [await self._answer(http, one) for one in many]
                body = orjson.dumps(answers if isinstance(request, list) else answers[0])
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, httpx.HTTPError):
            return
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _answer(self, http: httpx.AsyncClient, request: dict[str, Any]) -> dict[str, Any]:
        true = (await http.post(self._target, json=request)).json()
        told = self.lie(request["method"], request.get("params"), copy.deepcopy(true))
        self.told += told != true
        return {"jsonrpc": "2.0", "id": request["id"], **{k: told[k] for k in ("result", "error") if k in told}}

    def leave(self) -> None:
        """Answer nothing any more, and break what is open."""
        self.away = True
        for writer in list(self._writers):
            writer.transport.abort()

    def come_back(self) -> None:
        self.away = False


@asynccontextmanager
async def liar(target: str) -> AsyncIterator[Liar]:
    made = Liar(target)
    async with httpx.AsyncClient(timeout=30.0) as http:
        server = await asyncio.start_server(lambda r, w: made.serve(http, r, w), "127.0.0.1", 0)
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield made
        finally:
            server.close()
            made.leave()
            await asyncio.sleep(0)
