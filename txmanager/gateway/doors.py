"""Who may come in: tokens by header or path, pages by origin, names by host. Nothing here is ever logged."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from functools import lru_cache

Header = tuple[bytes, bytes]
_ALLOWED = (b"access-control-allow-headers", b"content-type, authorization")
_LONGEST_NAME = 262
"""253 characters of a name, brackets, a colon and a port: what is kept of callers' headers is bounded."""
_METHODS = (b"access-control-allow-methods", b"POST, OPTIONS")


class Tokens:
    """Known by their SHA-256 alone and compared in constant time. Without any, everybody may come in."""

    def __init__(self, digests: Sequence[str]) -> None:
        self._known = [bytes.fromhex(digest) for digest in digests]

    def admits(self, headers: Mapping[bytes, bytes], in_path: str | None) -> bool:
        if not self._known:
            return True
        token = in_path.encode() if in_path else _from_header(headers.get(b"authorization", b""))
        digest = hashlib.sha256(token).digest()
        found = False
        for known in self._known:  # all of them, always: the time tells nothing
            found |= hmac.compare_digest(known, digest)
        return found and bool(token)


def _from_header(header: bytes) -> bytes:
    """A bearer token, or the password of Basic."""
    scheme, _, credentials = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return credentials.strip()
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except ValueError:
        return b""


class Origins:
    """Which pages may read our answers (CORS). Everybody else gets an answer that a browser does not show to pages."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = frozenset(origin.lower().encode() for origin in allowed)

    def headers(self, headers: Mapping[bytes, bytes], preflight: bool = False) -> list[Header]:
        origin = headers.get(b"origin")
        if origin is None or not self._allowed:
            return []
        if b"*" in self._allowed:
            said: list[Header] = [(b"access-control-allow-origin", b"*")]
        elif origin.lower() in self._allowed:
            said = [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
        else:
            return []
        return [*said, _ALLOWED, _METHODS, (b"access-control-max-age", b"600")] if preflight else said


def is_own_name(host: bytes) -> bool:
    """Whether a header `Host` names this machine by address or as localhost. A page whose own name was re-bound to a
    loopback address sends that name instead."""
    return len(host) <= _LONGEST_NAME and _is_own_name(host)


@lru_cache(maxsize=256)
def _is_own_name(host: bytes) -> bool:
    name = host.decode("latin-1").lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
