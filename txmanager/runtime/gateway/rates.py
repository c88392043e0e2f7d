"""Rates: one bucket for each client address and one for each sender, kept for those seen last."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from time import monotonic

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_KEPT = 10_000


class Rates:
    """`per_second` on average, as many at once; None admits everything."""

    def __init__(self, per_second: float | None, now: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, who: str) -> bool:
        return self._take(who, 1, owing=False)

    def charge(self, who: str, cost: int) -> None:
        """What a batch costs beyond its first call. It may be dearer than all there ever is: it is paid for later."""
        if cost > 0:
            self._take(who, cost, owing=True)

    def _take(self, who: str, cost: int, owing: bool) -> bool:
        if self._per_second is None:
            return True
        now, most = self._now(), max(1.0, self._per_second)
        left, at = self._left.get(who, (most, now))
        left = min(most, left + (now - at) * self._per_second)
        admitted = owing or left >= 1
        self._left[who] = (left - cost if admitted else left, now)
        self._left.move_to_end(who)
        if len(self._left) > _KEPT:
            self._left.popitem(last=False)
        return admitted


def client_address(peer: str, headers: Mapping[bytes, bytes], trusted: tuple[str, ...]) -> str:
    """Who sent it: the peer, or what the last untrusted hop of `X-Forwarded-For` was where the peer is trusted."""
    if not trusted:
        return peer
    networks = _networks(trusted)
    hops = [hop.strip() for hop in headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",") if hop.strip()]
    address = peer
    while hops and _within(address, networks):
        address = hops.pop()
        if _parsed(address) is None:
            return peer
    return address


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


@lru_cache(maxsize=8)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


def _within(text: str, networks: Sequence[Network]) -> bool:
    address = _parsed(text)
    return address is not None and any(address in network for network in networks)
