"""Lines of JSON in a request of any length: read as they arrive, never more of them in memory than a page.

Reading stops while a page is worked on, so a client can send only as fast as its lines are answered. Blank lines count
as lines, and are not answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from txmanager.api.bodies import Gone, Receive
from txmanager.api.problems import NotJson, TooLarge, TooSlow
from txmanager.core.errors import Unavailable

NDJSON = b"application/x-ndjson"
Line = tuple[int, bytes | TooLarge]
"""Its number from 1, and what it says, unless it is too long."""


def is_ndjson(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == NDJSON


def check_plain(headers: Mapping[bytes, bytes]) -> None:
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise NotJson("compressed bodies are not read", field="Content-Encoding")


class Lines:
    """A request's body. Iterate once."""

    def __init__(self, receive: Receive, stopping: asyncio.Event, most_bytes: int, timeout_s: float, page: int) -> None:
        """`most_bytes` of a line, `timeout_s` between two pieces of the body, `page` lines at once."""
        self._receive = receive
        self._stopping = stopping
        self._most_bytes = most_bytes
        self._timeout_s = timeout_s
        self._page = page
        self._number = 0
        self._kept = bytearray()
        self._too_long = False
        """Whether the line that is on its way is."""

    @property
    def next(self) -> int:
        """The first line that was not given out."""
        return self._number + 1

    async def pages(self) -> AsyncIterator[list[Line]]:
        """The lines that arrived meanwhile, at most a page. `TooSlow` when nothing comes, `Unavailable` when the server
        stops, `Gone` when the client left: half a line is then no line."""
        more = True
        while more:
            data, more = await self._piece()
            found = self._split(data, last=not more)
            for start in range(0, len(found), self._page):
                page: list[Line] = []
                for line in found[start : start + self._page]:
                    self._number += 1
                    if line is None:
                        page.append((self._number, TooLarge(f"the line has more than {self._most_bytes} bytes")))
                    elif line and not line.isspace():
                        page.append((self._number, line))
                if page:
                    yield page

    def _split(self, data: bytes, *, last: bool) -> list[bytes | None]:
        """The lines that are complete now; None for one that is too long, of which nothing is kept."""
        *ends, rest = data.split(b"\n")
        found = [self._complete(end) for end in ends]
        self._keep(rest)
        if last and (self._kept or self._too_long):
            found.append(self._complete(b""))
        return found

    def _complete(self, end: bytes) -> bytes | None:
        if not self._kept and not self._too_long and len(end) <= self._most_bytes:
            return end
        self._keep(end)
        line = None if self._too_long else bytes(self._kept)
        self._kept.clear()
        self._too_long = False
        return line

    def _keep(self, piece: bytes) -> None:
        self._too_long = self._too_long or len(self._kept) + len(piece) > self._most_bytes
        if self._too_long:
            self._kept.clear()
        else:
            self._kept += piece

    async def _piece(self) -> tuple[bytes, bool]:
        receiving = asyncio.ensure_future(self._receive())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({receiving, stopping}, timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                if stopping.done():
                    raise Unavailable("the server stops; send the rest again")
                raise TooSlow(f"nothing arrived within {self._timeout_s:g} s")
            message = receiving.result()
        finally:
            receiving.cancel()
            stopping.cancel()
        if message["type"] == "http.disconnect":
            raise Gone
        return message.get("body", b""), bool(message.get("more_body"))
