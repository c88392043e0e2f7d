"""Peers that misbehave on purpose: real sockets, scripted by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson

Script = Callable[["Peer", dict[str, Any], asyncio.StreamWriter], Awaitable[bool | None]]
"""Answers one request; True ends the connection."""


def reply(request: dict[str, Any], result: Any = "ok", head: str = "HTTP/1.1 200 OK", extra: str = "") -> bytes:
    body = orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
    return f"{head}\r\ncontent-length: {len(body)}\r\n{extra}\r\n".encode() + body


async def echo(peer: Peer, request: dict[str, Any], writer: asyncio.StreamWriter) -> bool | None:
    writer.write(reply(request, request["params"]))
    return None


class Peer:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.connections = 0
        self.requests: list[dict[str, Any]] = []
        self.port = 0
        self.open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                request = orjson.loads(await reader.readexactly(size))
                self.requests.append(request)
                if await self.script(self, request, writer):
                    break
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def peer(script: Script = echo, port: int = 0) -> AsyncIterator[Peer]:
    made = Peer(script)
    server = await asyncio.start_server(made.serve, "127.0.0.1", port)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for writer in list(made.open):
            writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def raw_peer(answer: bytes, *, hold: bool, repeat: bool = False) -> AsyncIterator[int]:
    """Whatever is asked, send these bytes (for ever, with `repeat`); then close, or hold the line open."""
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            while await reader.read(65_536):
                writer.write(answer)
                while repeat:
                    writer.write(answer)
                    await writer.drain()
                await writer.drain()
                if not hold:
                    break
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # let the handlers see it, or they are cancelled with a traceback
