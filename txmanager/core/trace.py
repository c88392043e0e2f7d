"""An intent's place in its caller's trace.

The ledger stores a W3C `traceparent` with the intent and never reads it. It is no part of the fingerprint: a retry from
another trace is still the same request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def traceparent(header: bytes) -> str:
    """The header's text, or nothing where it is not valid: a broken trace is no reason to reject a request."""
    text = header.decode("latin-1")
    return text if _TRACEPARENT.fullmatch(text) else ""


class RequestSpan(Protocol):
    trace: str
    """The parent of everything that follows from the request; empty where the trace is not sampled."""

    def end(self, status: int) -> None: ...


class Tracer(Protocol):
    """Takes finished spans and sends them elsewhere. It never blocks and never fails: what does not fit is dropped."""

    def request(self, parent: str, name: str) -> RequestSpan:
        """Begin the span of an HTTP request."""
        ...

    def span(
        self,
        parent: str,
        name: str,
        began_ms: int,
        ended_ms: int,
        facts: Mapping[str, str | int],
        *,
        failed: str = "",
        remote: bool = False,
    ) -> None:
        """One step that is over. `failed` says why it did not succeed, `remote` that it called another server."""
        ...

    def close(self) -> None:
        """Send what is left, within seconds."""
        ...
