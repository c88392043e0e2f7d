"""Which names this server answers to while it asks for no token: a page in the user's browser must not be a caller.

A web page reaches a loopback port in two ways. It sends a request from its own origin: then `Origin` names it. Or its
host name is re-bound to 127.0.0.1, so that the browser takes us for the page's own server: then `Host` names it.
"""

from __future__ import annotations

from collections.abc import Iterable

from txmanager.api.problems import ForeignHost

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Hosts:
    def __init__(self, more: Iterable[str] = ()) -> None:
        self._known = _LOOPBACK | {host.lower() for host in more}

    def check(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        hosts, origins = [], []
        for name, value in headers:
            if name == b"host":
                hosts.append(value.decode("latin-1"))
            elif name == b"origin":
                origins.append(value.decode("latin-1"))
        if len(hosts) != 1 or not self._is_known(hosts[0]):
            raise ForeignHost("the header Host names another server than this one", field="Host")
        for origin in origins:
            scheme, _, host = origin.partition("://")
            if scheme not in ("http", "https") or not self._is_known(host):
                raise ForeignHost("the request comes from a page of another site", field="Origin")

    def _is_known(self, authority: str) -> bool:
        """A host with any port, or none."""
        name, colon, port = authority.lower().rpartition(":")
        if colon and port.isascii() and port.isdigit():
            return name in self._known
        return authority.lower() in self._known
