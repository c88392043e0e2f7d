"""Rates and room on Redis: one bucket per caller for all processes, and counts in each lane."""

from __future__ import annotations

from collections.abc import Collection

from txmanager.core.quotas import Drawn, Room
from txmanager.ledger.redis.registry import Registry
from txmanager.ledger.redis.runner import Call


class Sharing(Registry):
    async def draw(self, name: str, per_second: float, burst: int, want: int) -> Drawn:
        args = (repr(float(per_second)), burst, want)
        granted, wait_ms = await self._runner.run("draw", [self._keys.bucket(name)], args)
        return Drawn(int(granted), 0 if granted else int(wait_ms))

    async def room(self, owner: str, pools: Collection[str] | None = None) -> Room:
        lanes = [route.lane for route in await self.routes() if pools is None or route.pool in pools]
        if not lanes:
            return Room()
        keys = self._keys
        found = await self._runner.run_many(
            [Call("room", [keys.lane(at), keys.queue(at), keys.unfinished(at)], [owner]) for at in lanes]
        )
        return Room(sum(int(count) for count, _ in found), sum(int(size) for _, size in found))
