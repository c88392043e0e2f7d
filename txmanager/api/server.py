"""uvicorn on uvloop and httptools, with the limits it lacks: header size, and time for a request to arrive.

A sweep once a second ends connections whose request stays incomplete; a busy connection pays nothing for it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from txmanager.api.app import Api
from txmanager.api.problems import ApiError, TooLarge, TooManyConnections, TooSlow, encoded
from txmanager.core.errors import Misconfigured
from txmanager.settings import ApiSettings

_KEEP_ALIVE_S = 30
_GRACE_S = 10


class HeadersTooLarge(TooLarge):
    code = "headers_too_large"


def connection_class(settings: ApiSettings) -> type[HttpToolsProtocol]:
    class Connection(HttpToolsProtocol):
        """A request is `arriving` from its first byte (or from the connection's start) until its body is complete."""

        arriving_since: float | None = None
        _head_bytes = 0
        _in_head = True

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.arriving_since = self.loop.time()

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                self._head_bytes += len(data)
            if self.arriving_since is None:
                self.arriving_since = self.loop.time()
            super().data_received(data)
            if self._in_head and self._head_bytes > settings.max_header_bytes and not self.transport.is_closing():
                self.end(HeadersTooLarge(f"the headers have more than {settings.max_header_bytes} bytes"))

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._head_bytes = 0
            if len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers) > settings.max_header_bytes:
                self.end(HeadersTooLarge(f"the headers have more than {settings.max_header_bytes} bytes"))
                return
            if len(self.connections) > settings.max_connections:
                self.end(TooManyConnections(f"there are more than {settings.max_connections} connections"))
                return
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._in_head = True
            self.arriving_since = None
            if not self.transport.is_closing():
                super().on_message_complete()

        def on_body(self, body: bytes) -> None:
            if not self.transport.is_closing():
                super().on_body(body)

        def expire(self, now: float) -> None:
            if self.arriving_since is None or self.transport.is_closing():
                return
            limit = settings.header_timeout_s + (0 if self._in_head else settings.body_timeout_s)
            # a handler that reads no more (the answer is under way) is not the client's fault
            if now - self.arriving_since > limit and (self.cycle is None or not self.cycle.response_started):
                self.end(TooSlow(f"the request did not arrive within {limit:g} s"))

        def end(self, error: ApiError) -> None:
            status, body, headers = encoded(error)
            lines = [f"HTTP/1.1 {status} Request Refused".encode()]
            lines += [name + b": " + value for name, value in headers]
            lines += [b"content-length: %d" % len(body), b"connection: close", b"", body]
            self.transport.write(b"\r\n".join(lines))
            self.transport.close()

        def send_400_response(self, msg: str) -> None:
            self.end(ApiError("what arrived is no HTTP request"))

    return Connection


class _Server(uvicorn.Server):
    on_ready: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_ready()


class ApiServer:
    """Serves until `stop`; when `on_ready` is called it listens, and `port` is the real one."""

    def __init__(self, app: Api, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings
        self.port = settings.port
        # uvicorn's own lines: problems only, and never a request line, which may carry a key
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        config = uvicorn.Config(
            app,
            loop="none",
            http=connection_class(settings),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
            backlog=1024,
        )
        self._server = _Server(config)
        self._socket: socket.socket | None = None

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        self._socket = self._bind()
        self.port = self._socket.getsockname()[1]
        sweeping = asyncio.create_task(self._sweep())
        self._server.on_ready = on_ready
        try:
            await self._server._serve([self._socket])  # without `serve`'s signal handlers: the process has its own
        finally:
            sweeping.cancel()
            self._app.close()
            self._socket.close()

    def stop(self) -> None:
        self._app.stop()
        self._server.should_exit = True

    def _bind(self) -> socket.socket:
        host, port = self._settings.host, self._settings.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            listening.close()
            raise Misconfigured(f"api.host, api.port: cannot listen on {host}:{port}: {error.strerror}") from None
        listening.setblocking(False)
        return listening

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(1.0)
            now = loop.time()
            for connection in list(self._server.server_state.connections):
                connection.expire(now)  # type: ignore[union-attr]
