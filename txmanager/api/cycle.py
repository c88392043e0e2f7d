"""One request and its answer: uvicorn's, but an answer that is known as a whole leaves in one write.

uvicorn writes head and body apart. Those are two system calls and two packets, and the client wakes up twice; for a
submit that was a tenth of the process's time.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

Message = MutableMapping[str, Any]
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""What would end a header's line, or the head."""


class Cycle(RequestResponseCycle):
    _start: Message | None = None
    """The beginning of an answer, kept until the first part of its body. Every handler sends that at once."""

    async def send(self, message: Message) -> None:  # type: ignore[override]  # uvicorn has a type per message
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if start is None:
            await super().send(message)  # type: ignore[arg-type]
        elif message.get("more_body") or b"content-length" not in dict(start["headers"]):
            await super().send(start)  # type: ignore[arg-type]
            await super().send(message)  # type: ignore[arg-type]
        else:
            if self.flow.write_paused and not self.disconnected:
                await self.flow.drain()
            if not self.disconnected:
                self._write(start["status"], start["headers"], message["body"])

    def _write(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        if _CONTROL.search(b"".join([value for _, value in headers])):
            raise RuntimeError("a header has a control character")
        parts = [STATUS_LINE[status]]
        for name, value in (*self.default_headers, *headers):
            parts += (name, b": ", value, b"\r\n")
        if (b"connection", b"close") in headers:
            self.keep_alive = False
        elif not self.keep_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        # together, but not joined: a large body that many clients do not read must not be there many times
        self.transport.writelines([b"".join(parts), b"" if self.scope["method"] == "HEAD" else body])
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
