"""uvicorn on uvloop and httptools, with the limits it lacks: see `connection` and `places`.

A sweep once a second ends connections whose request stays incomplete or whose answer is not read.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Protocol

import uvicorn

from txmanager.api.bodies import Receive
from txmanager.api.call import Asgi, Send
from txmanager.api.connection import connection_class
from txmanager.api.descriptors import connection_limit
from txmanager.api.metrics import ApiMetrics
from txmanager.api.places import Places
from txmanager.core.errors import Misconfigured
from txmanager.settings import ApiSettings

_GRACE_S = 10
_SOCKET_BYTES = 32 << 10
"""For each direction; the kernel doubles it. Left alone, it would keep megabytes for a client that does not read."""


class Served(Protocol):
    """An ASGI application that can be told to stop."""

    metrics: ApiMetrics

    def stop(self) -> None:
        """End what would keep the server from stopping."""
        ...

    def close(self) -> None: ...

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None: ...


class _Server(uvicorn.Server):
    on_ready: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_ready()


class ApiServer:
    """Serves until `stop`; when `on_ready` is called it listens, and `port` is the real one."""

    def __init__(self, app: Served, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings
        self.port = settings.port
        # uvicorn's own lines: problems only, and never a request line, which may carry a key
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._places = Places(connection_limit(settings.max_connections), app.metrics)
        config = uvicorn.Config(
            app,
            loop="none",
            http=connection_class(settings, self._places),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
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
        # every connection inherits these
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # a machine that vanished acknowledges nothing: without this its streams would stay for a quarter of an hour
            timeout_ms = int(self._settings.write_timeout_s * 1000)
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2 * timeout_ms)
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
            self._places.report()
