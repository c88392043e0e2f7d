"""The receiving end of a WebSocket: texts of a server that has nothing else to say."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import ssl

from txmanager.core.errors import Unavailable

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MOST_HEADER = 16_384
_MOST_TEXT = 16 * 1024 * 1024
_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10


class WebSocket:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def upgrade(self, head: list[str]) -> None:
        """`head`: the request line and what headers belong to it."""
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        lines = ["Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        self._writer.write("\r\n".join([*head, *lines, "", ""]).encode())
        try:
            answer = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise Unavailable("the ledger opens no socket for hints") from None
        status, *headers = answer.decode("latin-1").split("\r\n")
        accept = base64.b64encode(hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()).decode()
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in headers)}
        if " 101 " not in f"{status} " or fields.get("sec-websocket-accept") != accept:
            raise Unavailable(f"the ledger opens no socket for hints: {status[:80]}")

    async def receive(self) -> str:
        """The next text; raises `EOFError` or `OSError` when the socket is over."""
        while True:
            first, second = await self._reader.readexactly(2)
            length = second & 0x7F
            if length >= 126:
                length = int.from_bytes(await self._reader.readexactly(2 if length == 126 else 8), "big")
            if length > _MOST_TEXT:
                raise EOFError("a hint that is no hint")
            body = await self._reader.readexactly(length)
            match first & 0x0F:
                case 1 if first & 0x80:
                    return body.decode()
                case 9:
                    self._send(_PONG, body)
                case 10:
                    return ""
                case _:
                    raise EOFError("the server closed the socket")

    def ping(self) -> None:
        self._send(_PING, b"")

    def _send(self, kind: int, body: bytes) -> None:
        """A client masks what it sends; a mask of zeros leaves it as it is."""
        self._writer.write(bytes([0x80 | kind, 0x80 | len(body), 0, 0, 0, 0]) + body)

    def close(self) -> None:
        self._writer.transport.abort()


async def dial(host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> WebSocket:
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=_MOST_HEADER)
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"cannot reach the ledger: {error}") from None
    return WebSocket(reader, writer)
