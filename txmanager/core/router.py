"""Weighted rendezvous hashing: which lane a *new* intent goes to.

Every producer with the same registry makes the same choice. The choice is stored at the claim and never made again, so
a changed pool cannot move a known key. Up to 64 lanes the best score of all wins, as in release 0.1.0, and a lane that
leaves moves only its own keys. In a larger pool the key first descends through the lanes in the order of their hashes,
left or right by what the lanes of both sides weigh, until few are left: some twenty hashes for 100,000 lanes. A lane
that comes or leaves moves the keys of a few lanes there, each within the part of the pool that it was in.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from math import log

from txmanager.core.errors import NoLane

_MASK = (1 << 64) - 1
_FLAT = 64
"""A pool of so many lanes is compared one by one; release 0.1.0 does so with any number."""
_FEW = 8
"""And so are these, at the end of the way through a larger pool."""


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


_seed_of_member = lru_cache(maxsize=1 << 17)(_seed)
"""The names of lanes and workers come again with every change of the registry."""


def _mix(value: int) -> int:
    """A 64-bit finaliser: one hash of the key, then a cheap mix per lane instead of a hash per lane."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Router:
    """The choice among a fixed set of weighted names; build a new one when the set changes."""

    def __init__(self, members: Iterable[tuple[str, int]]) -> None:
        known = sorted((_seed_of_member(name), name, weight) for name, weight in members if weight > 0)
        self._seeds = [seed for seed, _, _ in known]
        self._names = [name for _, name, _ in known]
        self._weights = [0, *accumulate(weight for _, _, weight in known)]
        """What all before a place weigh together."""
        self._equal = len({weight for _, _, weight in known}) <= 1

    def __len__(self) -> int:
        return len(self._names)

    def choose(self, partition_key: str) -> str | None:
        """The member that the key belongs to, or None when there is none."""
        if not self._names:
            return None
        key = _seed(partition_key)
        if len(self._names) <= _FLAT:
            return self._best(key, 0, len(self._names))
        return self._best(key, *self._descend(key))

    def _descend(self, key: int) -> tuple[int, int]:
        """The few places that the key belongs to: halves of the hashes' range are entered by their weight."""
        first, end, start, bit = 0, len(self._names), 0, 1 << 63
        while end - first > _FEW and bit:
            middle = bisect_left(self._seeds, start | bit, first, end)
            left, both = self._weights[middle] - self._weights[first], self._weights[end] - self._weights[first]
            if _mix(key ^ (start | bit)) * both < left << 64:
                end = middle
            else:
                first, start = middle, start | bit
            bit >>= 1
        return first, end

    def _best(self, key: int, first: int, end: int) -> str:
        """The highest score of these places wins."""
        seeds = self._seeds
        if self._equal:
            mixes = [_mix(key ^ seed) for seed in seeds[first:end]]
            return self._names[first + mixes.index(max(mixes))]

        def score(n: int) -> float:
            return -self._weight(n) / log((_mix(key ^ seeds[n]) + 1) / (_MASK + 2))

        return self._names[max(range(first, end), key=score)]

    def _weight(self, place: int) -> int:
        return self._weights[place + 1] - self._weights[place]


def route(router: Router, pool: str, partition_key: str) -> str:
    lane = router.choose(partition_key)
    if lane is None:
        raise NoLane(pool)
    return lane
