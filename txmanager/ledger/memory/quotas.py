"""Rates and room in memory: buckets of one process, and each lane's counts."""

from __future__ import annotations

import math

from txmanager.core.models import IntentId
from txmanager.core.quotas import Drawn, Room, Share, refill


class Buckets:
    def __init__(self) -> None:
        self._left: dict[str, tuple[float, int]] = {}

    def draw(self, name: str, per_second: float, burst: int, want: int, now: int) -> Drawn:
        left, at = self._left.get(name, (float(burst), now))
        left = refill(left, now - at, per_second, burst)
        granted = min(want, math.floor(left))
        self._left[name] = (left - granted, now)
        wait_ms = max(1, math.ceil((1 - (left - granted)) / per_second * 1000))
        return Drawn(granted, 0 if granted else wait_ms)


class Shares:
    """Who uses how much of one lane's queue."""

    def __init__(self) -> None:
        self._by_intent: dict[IntentId, tuple[str, int]] = {}

    def used(self, owner: str) -> Room:
        sizes = [size for whose, size in self._by_intent.values() if whose == owner]
        return Room(len(sizes), sum(sizes))

    def full(self, share: Share | None) -> bool:
        if share is None:
            return False
        used = self.used(share.owner)
        too_many = share.most is not None and used.count >= share.most
        return too_many or (share.most_bytes is not None and used.size + share.size > share.most_bytes)

    def take(self, id: IntentId, share: Share | None) -> None:
        if share is not None:
            self._by_intent[id] = (share.owner, share.size)

    def give_back(self, id: IntentId) -> None:
        self._by_intent.pop(id, None)
