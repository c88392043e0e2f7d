"""POST to one URL over a few kept connections. The body of an answer is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

from txmanager.rpc.connection import Connection, Response, connect
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.errors import RpcFailure, TimedOut

_MAX_ANSWER = 65_536
_KEPT = 16


class Poster:
    def __init__(self, url: str, timeout_s: float = 10.0) -> None:
        self._endpoint = Endpoint(url, timeout_s=timeout_s)
        self._tls = self._endpoint.tls()
        self._kept: list[Connection] = []

    @property
    def name(self) -> str:
        """Its host: the path may carry a secret."""
        return self._endpoint.name

    async def post(self, body: bytes, headers: Mapping[str, str]) -> int:
        """The status; raises `RpcFailure` when there was none in time."""
        return (await self.ask(body, headers)).status

    async def ask(self, body: bytes, headers: Mapping[str, str]) -> Response:
        """Status and body; raises `RpcFailure` when there was none in time."""
        parts = urlsplit(self._endpoint.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"POST {path} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        request = "\r\n".join([*lines, "", ""]).encode() + body
        connection = await self._connection()
        try:
            async with asyncio.timeout(self._endpoint.timeout_s):
                response = await connection.request(request)
        except TimeoutError:
            connection.abort()
            raise TimedOut(f"{self.name}: no answer within {self._endpoint.timeout_s:g} s") from None
        except (RpcFailure, asyncio.CancelledError):
            connection.abort()
            raise
        if connection.usable and len(self._kept) < _KEPT:
            self._kept.append(connection)
        else:
            connection.abort()
        return response

    async def _connection(self) -> Connection:
        while self._kept:
            connection = self._kept.pop()
            if connection.usable:
                return connection
        host, port = self._endpoint.address
        timeout_s = min(self._endpoint.connect_timeout_s, self._endpoint.timeout_s)
        return await connect(host, port, self._tls, host, self.name, _MAX_ANSWER, timeout_s)

    def close(self) -> None:
        for connection in self._kept:
            connection.abort()
        self._kept.clear()
