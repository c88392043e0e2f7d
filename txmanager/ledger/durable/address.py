"""Where a Durable Object ledger is, and how a request shows who asks.

`do+https://host[/path]`; plain `do+http` on this machine only, because a request shows its payload to the network.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from txmanager.core.errors import InvalidSettings

SCHEMES = ("do+https", "do+http")
SHORTEST_SECRET = 32
_DOMAIN = "txmanager/ledger/1"


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    path: str
    tls: bool
    secret: bytes = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> Address:
        """The secret is the URL's password."""
        if problem := problem_of(url):
            raise InvalidSettings("ledger.url", problem)
        parts = urlsplit(url)
        secret = unquote(parts.password or "")
        if len(secret) < SHORTEST_SECRET or " " in secret:
            how = f"must have at least {SHORTEST_SECRET} characters and no space; try `openssl rand -hex 32`"
            raise InvalidSettings("ledger.password", how)
        assert parts.hostname is not None
        tls = parts.scheme == "do+https"
        return cls(parts.hostname, parts.port or (443 if tls else 80), parts.path.rstrip("/"), tls, secret.encode())

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context() if self.tls else None

    def head(self, method: str, path: str, query: str, body: bytes, clock: Callable[[], int]) -> list[str]:
        """The request line and the headers that every request has. The host is the audience: what is signed for one
        ledger is worth nothing at another."""
        path = self.path + path
        time, nonce = str(clock()), secrets.token_hex(16)
        digest = hashlib.sha256(body).hexdigest()
        message = "\n".join((_DOMAIN, self.host, method, path, query, time, nonce, digest))
        mac = hmac.new(self.secret, message.encode(), hashlib.sha256).hexdigest()
        return [f"{method} {path}{query} HTTP/1.1", f"Host: {self.name}", f"Authorization: TXM1 {time}.{nonce}.{mac}"]


def problem_of(url: str) -> str:
    """What is wrong with the URL of such a ledger; empty when nothing is."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is malformed (its port or host)"
    if not host:
        return "must name a host: do+https://ledger.example.com"
    if parts.query or parts.fragment or parts.username:
        return "must be scheme, host and path alone; the secret goes into ledger.password"
    if parts.scheme == "do+http" and not _is_here(host):
        return "must begin with do+https: plain http shows every intent to the network, and is for this machine only"
    return ""


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
