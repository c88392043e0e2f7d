"""A node's address as resident lanes see it: every request is read here, and a send can be the last thing they do.

What is sent is looked up on the lanes' disk first: bytes that leave before they were written ahead are noted as such.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import base58
import httpx

When = Callable[[str], None]


def hash_of(signed: str) -> str:
    raw = base64.b64decode(signed)
    return base58.b58encode(hashlib.sha256(raw[:-65]).digest()).decode()


class NodeDoor:
    """`before` is called when a request was read, `after` when the node answered it and its sender has not heard."""

    def __init__(self, node: str, disk: Path | None) -> None:
        self._node, self._disk = node, disk
        self._server: asyncio.Server | None = None
        self._http = httpx.AsyncClient(timeout=30)
        self._tasks: set[asyncio.Task[None]] = set()
        self.before: When = lambda _method: None
        self.after: When = lambda _method: None
        self.sent: list[dict[str, Any]] = []
        self.asked: dict[str, int] = {}
        self.answer: Callable[[str, Any], Any] = lambda _method, _params: None
        """What to say instead of the node; None lets the node answer."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, httpx.TransportError):
                while True:
                    await self._exchange(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        body = await reader.readexactly(length)
        told = json.loads(body)
        method = told["method"]
        self.asked[method] = self.asked.get(method, 0) + 1
        if method == "send_tx":
            self._note(told["params"]["signed_tx_base64"])
        self.before(method)
        instead = self.answer(method, told["params"])
        if instead is None:
            reply = await self._http.post(self._node, content=body, headers={"content-type": "application/json"})
            status, text = reply.status_code, reply.content
        else:
            status, text = 200, json.dumps({"jsonrpc": "2.0", "id": told["id"], **instead}).encode()
        self.after(method)
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        await writer.drain()

    def _note(self, signed: str) -> None:
        name = hash_of(signed)
        self.sent.append({"at": time.monotonic(), "hash": name, "known": self._disk is None or self._written(name)})

    def _written(self, name: str) -> bool:
        assert self._disk is not None
        for path in (self._disk / "txmanager-lane").glob("*.sqlite"):
            database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
            # an object may be there without its tables
            with contextlib.closing(database), contextlib.suppress(sqlite3.OperationalError):
                if database.execute("SELECT 1 FROM attempts WHERE hash = ?", (name,)).fetchone():
                    return True
        return False
