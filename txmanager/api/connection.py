"""One connection: uvicorn's, with the limits it lacks. What a client may hold of us is bounded in time and in memory.

- A request's head and body arrive in time; headers have a size; pipelined requests have a number.
- What we wrote is read: `write_timeout_s` without progress, and the connection is aborted.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from txmanager.api.cycle import Cycle
from txmanager.api.places import Idle, Places
from txmanager.api.problems import ApiError, HeadersTooLarge, TooManyConnections, TooSlow, encoded
from txmanager.settings import ApiSettings

_PIPELINED = 64
_KEEP_ALIVE_S = 30
_PROGRESS_BYTES = 16 << 10
"""What a client reads at least in `write_timeout_s`; a byte now and then is no progress."""
_PATIENCE_S = 1.0
"""How long a connection may do nothing before it counts as idle where others have no place."""


class _Enough(Exception):
    """Ends the parsing of what a refused client sent."""


class Connection(HttpToolsProtocol):
    """A request is `arriving` from its first byte (or from the connection's start) until its body is complete."""

    settings: ApiSettings
    places: Places

    arriving_since: float | None = None
    _quiet_since = 0.0
    _head_bytes = 0
    _in_head = True
    _stuck_since: float | None = None
    _unsent = 0
    _flowed = False

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def asked(self) -> bool:
        return self.cycle is not None

    @property
    def _behind_another(self) -> bool:
        """Whether what arrives is pipelined behind a request without an answer: it may not be read meanwhile, and a
        refusal would be taken for the other's answer."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return bool(self.pipeline) or (self._in_head and answering)

    # -- from the transport

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.arriving_since = self._quiet_since = self.loop.time()
        if not self.places.take(self):
            self.end(self._no_place())

    def connection_lost(self, exc: Exception | None) -> None:
        self.places.leave(self)
        if isinstance(exc, TimeoutError):
            self.places.dropped(self, Idle.STALLED.value)  # the kernel's own time-out was first
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        if self.arriving_since is None:
            self.arriving_since = self.loop.time()
        super().data_received(data)
        if self._in_head and self._head_bytes > self.settings.max_header_bytes:
            self.end(HeadersTooLarge(f"the headers have more than {self.settings.max_header_bytes} bytes"))

    def resume_writing(self) -> None:
        self._flowed = True
        super().resume_writing()

    # -- from the parser

    def on_message_begin(self) -> None:
        if self.transport.is_closing():
            raise _Enough
        if self.arriving_since is None:
            self.arriving_since = self.loop.time()  # it began in the packet that ended the one before
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        most = self.settings.max_header_bytes
        if len(self.url) + sum([len(n) + len(v) + 4 for n, v in self.headers]) > most:
            self.end(HeadersTooLarge(f"the headers have more than {most} bytes"))
            return
        if not self.places.may_ask(self, self.url.partition(b"?")[0]):
            self.end(self._no_place())
            return
        if len(self.pipeline) >= _PIPELINED:
            # each takes a hundred times the memory of its bytes, and one packet holds thousands
            self.drop("pipelined")
            raise _Enough
        self._in_head = False
        super().on_headers_complete()
        self.cycle.__class__ = Cycle  # uvicorn makes its own, and none of it has run yet
        if self.places.is_spare(self):
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._in_head = True
        self.arriving_since = None
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_response_complete(self) -> None:
        """As uvicorn's, without its timer for each request: the sweep ends what is idle."""
        self._quiet_since = self.loop.time()
        if self.arriving_since is not None:
            self.arriving_since = self._quiet_since  # what is on its way may have waited for this
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    # -- time

    def expire(self, now: float) -> None:
        """Called about once a second."""
        if self._stalled(now):
            self.drop(Idle.STALLED.value)
        elif self.arriving_since is not None and not self.transport.is_closing():
            limit = self.settings.header_timeout_s + (0 if self._in_head else self.settings.body_timeout_s)
            if now - self.arriving_since <= limit or self._behind_another:
                return
            # a handler that reads no more (the answer is under way) is not the client's fault
            if self.cycle is None or not self.cycle.response_started:
                self.places.dropped(self, "too_slow")
                self.end(TooSlow(f"the request did not arrive within {limit:g} s"))
            elif self.cycle.response_complete:
                self.drop("too_slow")  # its answer was the last one
        elif now - self._quiet_since > _KEEP_ALIVE_S and self.idling(now) is not None:
            self.transport.close()

    def _stalled(self, now: float) -> bool:
        """Also of a connection that is closing: it does so only when its last bytes are read."""
        unsent = self.transport.get_write_buffer_size()
        flowed, self._flowed = self._flowed, False
        if unsent == 0:
            self._stuck_since = None
        elif self._stuck_since is None or flowed or unsent <= self._unsent - _PROGRESS_BYTES:
            self._stuck_since, self._unsent = now, unsent
        else:
            return now - self._stuck_since > self.settings.write_timeout_s
        return False

    def idling(self, now: float) -> tuple[Idle, float] | None:
        if self._stuck_since is not None:
            return (Idle.STALLED, self._stuck_since) if now - self._stuck_since > _PATIENCE_S else None
        if self.cycle is not None and not self.cycle.response_complete:
            return None
        if self.arriving_since is None:
            return Idle.KEPT_ALIVE, self._quiet_since
        if self._in_head and now - self.arriving_since > _PATIENCE_S:
            return Idle.NO_REQUEST, self.arriving_since
        return None

    # -- ends

    def _no_place(self) -> ApiError:
        self.places.dropped(self, "no_place")
        return TooManyConnections(f"all {self.places.limit} places for connections are taken")

    def drop(self, reason: str) -> None:
        self.places.dropped(self, reason, self.transport.get_write_buffer_size())
        self.transport.abort()

    def end(self, error: ApiError) -> None:
        if self.transport.is_closing():
            return
        if self._behind_another:
            self.drop("pipelined")
            return
        status, body, headers = encoded(error)
        lines = [f"HTTP/1.1 {status} Request Refused".encode()]
        lines += [name + b": " + value for name, value in headers]
        lines += [b"content-length: %d" % len(body), b"connection: close", b"", body]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self.end(ApiError("what arrived is no HTTP request"))


def connection_class(settings: ApiSettings, places: Places) -> type[Connection]:
    """uvicorn makes the connections; what they share comes with the class."""
    return type("Connection", (Connection,), {"settings": settings, "places": places})
