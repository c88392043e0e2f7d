"""Weighted rendezvous hashing: which lane a *new* intent goes to.

Every producer with the same registry makes the same choice; a lane that leaves moves only its own keys. The choice
is stored at the claim and never made again, so a changed pool cannot move a known key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from math import log

from txmanager.core.errors import NoLane

_MASK = (1 << 64) - 1


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _mix(value: int) -> int:
    """A 64-bit finaliser: one hash of the key, then a cheap mix per lane instead of a hash per lane."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Router:
    """The choice among a fixed set of weighted names; build a new one when the set changes."""

    def __init__(self, members: Iterable[tuple[str, int]]) -> None:
        self._members = sorted((name, weight, _seed(name)) for name, weight in members if weight > 0)
        self._equal = len({weight for _, weight, _ in self._members}) <= 1

    def __len__(self) -> int:
        return len(self._members)

    def choose(self, partition_key: str) -> str | None:
        """The member with the highest score, or None when there is none."""
        if not self._members:
            return None
        key = _seed(partition_key)
        if self._equal:
            return max(self._members, key=lambda m: _mix(key ^ m[2]))[0]
        return max(self._members, key=lambda m: -m[1] / log((_mix(key ^ m[2]) + 1) / (_MASK + 2)))[0]


def route(router: Router, pool: str, partition_key: str) -> str:
    lane = router.choose(partition_key)
    if lane is None:
        raise NoLane(pool)
    return lane
