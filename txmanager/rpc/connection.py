"""One HTTP/1.1 connection: answers arrive in the order of the requests, or the connection is over.

Never trusts the peer: bodies, headers and surplus answers are bounded, and whatever is no HTTP ends the connection
with one clear error for every waiting request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import httptools

from txmanager.rpc.errors import BadAnswer, ConnectionFailed, RpcFailure, TooLong

_MAX_HEADER_BYTES = 65_536


class Closed(ConnectionFailed):
    """The peer ended the connection before this request was answered. `orderly`: after a whole answer."""

    def __init__(self, message: str, orderly: bool) -> None:
        super().__init__(message)
        self.orderly = orderly


class Response(NamedTuple):
    status: int
    body: bytes


class Connection(asyncio.Protocol):
    __slots__ = (  # each lane has one, and up to as many more are asked side by side
        "_body",
        "_body_bytes",
        "_failure",
        "_framed",
        "_head_bytes",
        "_in_body",
        "_max_body",
        "_name",
        "_parser",
        "_transport",
        "_waiting",
        "answered",
        "idle_since",
    )

    def __init__(self, name: str, max_body: int) -> None:
        self._name = name
        self._max_body = max_body
        self._waiting: list[asyncio.Future[Response]] = []  # a few at most; an empty deque takes ten times as much
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._failure: RpcFailure | None = None
        self.answered = 0
        self.idle_since = 0.0
        self._reset()

    def _reset(self) -> None:
        self._head_bytes = 0
        self._in_body = False
        self._framed = False
        self._body: list[bytes] = []
        self._body_bytes = 0

    @property
    def usable(self) -> bool:
        return self._failure is None and self._transport is not None and not self._transport.is_closing()

    @property
    def outstanding(self) -> int:
        return len(self._waiting)

    def request(self, data: bytes) -> asyncio.Future[Response]:
        [future] = self.request_many([data])
        return future

    def request_many(self, requests: Sequence[bytes]) -> list[asyncio.Future[Response]]:
        """Pipelined: they leave in one write."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Response]] = [loop.create_future() for _ in requests]
        if not self.usable:
            for future in futures:
                future.set_exception(self._failure or Closed(f"{self._name}: the connection is closed", False))
                future.exception()  # of several requests in a row, only the first is waited for
            return futures
        assert self._transport is not None
        self._waiting.extend(futures)
        self._transport.write(b"".join(requests))
        return futures

    def abort(self, why: str = "closed here") -> None:
        self._fail(ConnectionFailed(f"{self._name}: {why}"))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has transports of its own

    def data_received(self, data: bytes) -> None:
        if self._failure is not None:
            return
        if not self._in_body:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(BadAnswer(f"{self._name}: switched protocols unasked"))
        except httptools.HttpParserError as error:
            self._fail(BadAnswer(f"{self._name}: what came back is no HTTP answer ({str(error)[:80]})"))
        else:
            if not self._in_body and self._head_bytes > _MAX_HEADER_BYTES:
                self._fail(BadAnswer(f"{self._name}: more than {_MAX_HEADER_BYTES} bytes of headers"))

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._in_body and not self._framed and self._failure is None:
            self.on_message_complete()  # a body without a length ends with the connection
        self._fail(Closed(f"{self._name}: the connection was lost{f' ({exc})' if exc else ''}", False))

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._framed and name.lower() in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_headers_complete(self) -> None:
        self._in_body = True

    def on_body(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > self._max_body:
            self._fail(TooLong(f"{self._name}: cut off after {self._max_body} bytes of one answer"))
        elif self._failure is None:
            self._body.append(data)

    def on_message_complete(self) -> None:
        if self._failure is not None:
            return
        status, body = self._parser.get_status_code(), b"".join(self._body)
        lasting = self._framed and self._parser.should_keep_alive()
        self._reset()
        if 100 <= status < 200:
            return
        if not self._waiting:
            self._fail(BadAnswer(f"{self._name}: answered a request that was never made"))
            return
        self.answered += 1
        future = self._waiting.pop(0)
        if not future.done():
            future.set_result(Response(status, body))
        if not lasting:
            self._fail(Closed(f"{self._name}: closes after each answer", True))

    def _fail(self, failure: RpcFailure) -> None:
        if self._failure is None:
            self._failure = failure
        while self._waiting:
            future = self._waiting.pop(0)
            if not future.done():
                future.set_exception(self._failure)
                future.exception()  # whoever gave up waiting must not leave a "never retrieved" warning
        if self._transport is not None:
            self._transport.abort()


async def connect(
    host: str, port: int, tls: Any, server_name: str | None, name: str, max_body: int, timeout: float
) -> Connection:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            _, connection = await loop.create_connection(
                lambda: Connection(name, max_body), host, port, ssl=tls, server_hostname=server_name if tls else None
            )
    except TimeoutError:
        raise ConnectionFailed(f"{name}: no connection within {timeout:g} s") from None
    except (OSError, ValueError) as error:  # refused, unreachable, name not found, TLS; ValueError: a name idna refuses
        raise ConnectionFailed(f"{name}: {error}") from None
    return connection
