"""HTTP/1.1 as far as a JSON-RPC node needs it: keep-alive, pipelining, answers in order of request.

A handler gets a whole request and answers whenever it likes; what it answers early waits for its turn.
Bytes that are not HTTP, and bodies beyond the limit, get an answer and a closed connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple, cast

import httptools

MAX_BODY = 2 * 1024 * 1024
MAX_HEADERS = 64 * 1024
MAX_PIPELINED = 1_000
LINGER_S = 1.0


class Request(NamedTuple):
    method: str
    path: str
    query: bytes
    content_type: str
    body: bytes


class Response(NamedTuple):
    status: int
    body: bytes = b""
    content_type: bytes = b"application/json"
    cors: bool = True
    hang_up: bool = False  # close without a word of this answer


Reply = Callable[[Response], None]
Handler = Callable[[Request, Reply], None]

_TOO_LARGE = Response(413, b"Failed to buffer the request body: length limit exceeded", b"text/plain; charset=utf-8")
_CORS = b"access-control-allow-origin: *\r\naccess-control-allow-headers: *\r\n"


class Connection(asyncio.Protocol):
    def __init__(self, handler: Handler, connections: set[Connection]) -> None:
        self._handler = handler
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._slots: deque[list[bytes | None]] = deque()  # one answer each, None until it is known
        self._reading = False
        self._paused = False
        self._refused = False
        self._in_head = False
        self._head_size = 0
        self._last: list[bytes | None] | None = None  # after this answer the connection closes
        self._start()

    def _start(self) -> None:
        self._url = b""
        self._body: list[bytes] = []
        self._size = 0
        self._content_type = ""
        self._too_large = False

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass of asyncio's
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        if self._last is not None:
            return
        self._reading = True
        try:
            unfinished = self._in_head
            self._parser.feed_data(data)
            # A head that does not end reaches no callback: what follows its first bytes is counted here.
            self._head_size = self._head_size + len(data) if unfinished and self._in_head else 0
            if self._head_size > MAX_HEADERS:
                self._refuse(_TOO_LARGE)
        except httptools.HttpParserUpgrade:
            self._last = self._slots[-1] if self._slots else None
        except httptools.HttpParserError:  # ours, raised from a callback, arrive wrapped in it too
            if self._too_large:
                self._refuse(_TOO_LARGE)
            else:
                self._refuse(Response(400, b'{"error":"not an HTTP request"}'))
        finally:
            self._reading = False
        self._flush()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # httptools

    def on_message_begin(self) -> None:
        self._in_head = True
        self._start()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        if lowered == b"content-length" and value.isdigit():
            self._limit(len(value) > 18 or int(value) > MAX_BODY)
        if lowered == b"content-type":
            self._content_type = value.decode("latin-1").partition(";")[0].strip().lower()
        elif lowered == b"expect" and value.lower() == b"100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_headers_complete(self) -> None:
        self._in_head = False

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        self._limit(self._size > MAX_BODY)
        self._body.append(body)

    def on_message_complete(self) -> None:
        slot: list[bytes | None] = [None]
        self._slots.append(slot)
        if not self._parser.should_keep_alive():
            self._last = slot
        path, _, query = self._url.partition(b"?")
        method = self._parser.get_method().decode("latin-1")
        request = Request(method, path.decode("latin-1"), query, self._content_type, b"".join(self._body))

        def reply(response: Response) -> None:
            self._answer(slot, response)

        self._handler(request, reply)
        if len(self._slots) > MAX_PIPELINED and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _limit(self, exceeded: bool) -> None:
        if exceeded:
            self._too_large = True
            raise ValueError("too large")

    # answers

    def _answer(self, slot: list[bytes | None], response: Response) -> None:
        if response.hang_up:
            slot[0] = b""
            self._last = slot
        else:
            slot[0] = _encode(response, close=self._last is slot)
        if not self._reading:
            self._flush()

    def _refuse(self, response: Response) -> None:
        self._refused = True
        self._last = [_encode(response, close=True)]
        self._slots.append(self._last)

    def _hang_up(self, transport: asyncio.Transport) -> None:
        if not self._refused:
            transport.close()
            return
        # Closing on unread bytes would reset the connection and destroy the answer: let them run dry first.
        transport.write_eof()
        asyncio.get_running_loop().call_later(LINGER_S, transport.close)

    def _flush(self) -> None:
        transport, slots = self._transport, self._slots
        if transport is None:
            return
        ready: list[bytes] = []
        while slots and slots[0][0] is not None:
            slot = slots.popleft()
            ready.append(slot[0] or b"")
            if slot is self._last:
                transport.write(b"".join(ready))
                self._hang_up(transport)
                return
        if ready:
            transport.write(b"".join(ready))
        if self._paused and len(slots) < MAX_PIPELINED // 2:
            self._paused = False
            transport.resume_reading()


def _encode(response: Response, *, close: bool) -> bytes:
    try:
        reason = HTTPStatus(response.status).phrase
    except ValueError:
        reason = "Error"
    return b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n%s%s\r\n%s" % (
        response.status,
        reason.encode(),
        response.content_type,
        len(response.body),
        _CORS if response.cors else b"",
        b"connection: close\r\n" if close else b"",
        response.body,
    )
