"""HTTP/1.1 without I/O: a request becomes bytes, bytes become a reply. Never trusts the peer's sizes."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httptools

_MAX_HEAD = 65_536
_MAX_BODY = 32 * 1024 * 1024


class TransportFailed(Exception):
    """No whole answer: refused, lost, too slow, or no HTTP. Whether the server acted is unknown."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Address:
    """Where the API is. A path in the URL is put before every path."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ValueError("url must look like http://127.0.0.1:8080, without credentials")
        if token is not None and (not token.isascii() or not token.isprintable() or " " in token):
            raise ValueError("token must be visible ASCII without spaces")
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self._base = parts.path.rstrip("/")
        self._head = f" HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: txmanager-client\r\n"
        if token is not None:
            self._head += f"Authorization: Bearer {token}\r\n"

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"

    def encode(self, request: Request) -> bytes:
        head = f"{request.method} {self._base}{request.path}{self._head}"
        head += "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        if request.body or request.method == "POST":
            head += f"Content-Length: {len(request.body)}\r\n"
        return head.encode("ascii") + b"\r\n" + request.body


class ReplyReader:
    """Feed it what arrives. `started` after the head, `complete` after the body; `take` empties what is there."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._head_bytes = 0
        self._size = 0
        self._body: list[bytes] = []
        self._framed = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.started = False
        self.complete = False
        self.reusable = False

    def feed(self, data: bytes, *, bounded: bool = True) -> None:
        if not data:
            if self.started and not self._framed:
                self.complete = True  # a body without a length ends with the connection
                return
            raise TransportFailed("the connection was lost before the answer was complete")
        if not self.started:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise TransportFailed(f"what came back is no HTTP answer: {error}") from None
        if (not self.started and self._head_bytes > _MAX_HEAD) or (bounded and self._size > _MAX_BODY):
            raise TransportFailed("the answer is too large")

    def take(self) -> bytes:
        body = b"".join(self._body)
        self._body.clear()
        return body

    def reply(self) -> Reply:
        return Reply(self.status, self.headers, self.take())

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.decode("latin-1").lower()
        self._framed = self._framed or key in ("content-length", "transfer-encoding")
        self.headers[key] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.started = self.status >= 200
        if self.status in (204, 304):
            self._framed = True

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        self._body.append(data)

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self.complete = True
            self.reusable = self._framed and self._parser.should_keep_alive()
