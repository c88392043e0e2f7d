"""An endpoint of a network: where it is, how much to trust it, and when to leave it alone.

A URL may carry an API key, so only its host is ever shown.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from txmanager.core.errors import InvalidSettings

MAX_REQUEST_BYTES = 2 * 1024 * 1024
"""Where nearcore and most servers answer HTTP 413."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`direct`: no balancer in between, every answer comes from one node. `archival`: it forgets nothing."""

    url: str = field(repr=False)
    direct: bool = False
    archival: bool = False
    timeout_s: float = 5.0
    connect_timeout_s: float = 3.0
    max_body: int = 32 * 1024 * 1024
    max_request_bytes: int = MAX_REQUEST_BYTES
    """What a request may weigh; a larger one is not sent."""
    pipeline: int = 32
    """How many sends of one lane may be on the wire at once where the endpoint is direct."""
    authorization: str | None = field(default=None, repr=False)
    """The value of an `Authorization` header."""
    name: str = ""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError:
            raise InvalidSettings("rpc", "a URL is malformed (its port or host)") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidSettings("rpc", "a URL must look like https://rpc.example.com")
        if any(not 0x21 <= ord(c) <= 0x7E for c in self.url):
            raise InvalidSettings("rpc", "a URL must be visible ASCII without spaces")
        if parts.username or parts.password:
            raise InvalidSettings("rpc", "put credentials into `authorization`, not into the URL")
        if not self.name:
            object.__setattr__(self, "name", f"{parts.hostname}:{port or (443 if parts.scheme == 'https' else 80)}")

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)

    def tls(self) -> ssl.SSLContext | None:
        return ssl.create_default_context() if self.url.startswith("https:") else None

    def head(self) -> bytes:
        """The request up to the value of Content-Length."""
        parts = urlsplit(self.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [
            f"POST {path} HTTP/1.1".encode(),
            b"Host: " + parts.netloc.encode(),
            b"Content-Type: application/json",
            b"Accept: application/json",
        ]
        if self.authorization is not None:
            if not self.authorization.isprintable() or not self.authorization.isascii():
                raise InvalidSettings("rpc.authorization", "must be a single line of ASCII")
            lines.append(b"Authorization: " + self.authorization.encode())
        return b"\r\n".join([*lines, b"Content-Length: "])


class Breaker:
    """Opened by connection errors alone, for longer each time; when the time is over, one caller tries again."""

    def __init__(
        self, rng: random.Random, now: Callable[[], float], first_s: float = 0.25, most_s: float = 30.0
    ) -> None:
        self._rng = rng
        self._now = now
        self._first_s = first_s
        self._most_s = most_s
        self._failures = 0
        self._until = 0.0
        self._trial_until = 0.0

    @property
    def closed(self) -> bool:
        return self._failures == 0

    def admits(self) -> bool:
        """Whether a call may go through now. An open breaker lets one trial through when its pause is over."""
        return self._failures == 0 or (self._now() >= self._until and self._now() >= self._trial_until)

    def entered(self, timeout_s: float) -> None:
        if self._failures:
            self._trial_until = self._now() + timeout_s

    def succeeded(self) -> None:
        self._failures = 0
        self._trial_until = 0.0

    def failed(self) -> None:
        """Calls that were under way together count once: they all met the same outage."""
        now = self._now()
        if self._failures and now < self._until:
            return
        pause = min(self._most_s, self._first_s * 2**self._failures)
        self._failures += 1
        self._trial_until = 0.0
        self._until = now + pause * (0.5 + self._rng.random() / 2)
