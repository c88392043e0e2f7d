"""A node that twists: forwards JSON-RPC to a real one, and lets a test bend single answers. Remembers what was sent."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import base58
import httpx


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any


Forward = Callable[[], Awaitable[Answer]]
Bend = Callable[[dict[str, Any], Forward], Awaitable[Answer | None]]
"""None closes the connection without an answer."""


def refuse(error: Any) -> Answer:
    """What a node says to a transaction it does not take."""
    data = {"TxExecutionError": {"InvalidTxError": error}}
    body = {"name": "HANDLER_ERROR", "cause": {"name": "INVALID_TRANSACTION", "info": {}}, "code": -32000, "data": data}
    return Answer(200, {"error": {**body, "message": "Server error"}})


def hash_of(sent: str) -> str:
    """The hash of a signed transaction: over everything but the signature, which ends it."""
    return base58.b58encode(hashlib.sha256(base64.b64decode(sent)[:-65]).digest()).decode()


@dataclass
class RpcRelay:
    """`async with RpcRelay(url) as relay`: use `relay.url` as the endpoint; `relay.bend[method]` changes answers."""

    target: str
    bend: Mapping[str, Bend] = field(default_factory=dict)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    """Every request in the order of arrival: method and params."""
    url: str = ""
    _server: asyncio.Server | None = None
    _client: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=20))
    _links: set[asyncio.Task[Any]] = field(default_factory=set)

    def sent(self, *methods: str) -> list[str]:
        """The hashes of the transactions that were sent, in order, resends included."""
        wanted = methods or ("broadcast_tx_async", "send_tx")
        return [hash_of(p["signed_tx_base64"] if isinstance(p, dict) else p[0]) for m, p in self.calls if m in wanted]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)
        await self._client.aclose()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            self._links.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = await reader.readexactly(int(lengths[0].split(b":")[1]))
        request = json.loads(body)
        self.calls.append((request["method"], request["params"]))

        async def forward() -> Answer:
            answer = await self._client.post(self.target, content=body, headers={"content-type": "application/json"})
            return Answer(answer.status_code, answer.json() if answer.content else None)

        bend = self.bend.get(request["method"])
        answer = await (bend(request, forward) if bend else forward())
        if answer is None:
            return False
        told = answer.body
        if isinstance(told, dict):
            told = {"jsonrpc": "2.0", **told, "id": request["id"]}
        data = json.dumps(told).encode() if told is not None else b""
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (answer.status, len(data), data))
        await writer.drain()
        return True
