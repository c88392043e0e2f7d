"""Which lanes belong to a worker: rendezvous hashing among the workers that offer to serve each."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from txmanager.core.ledger import Member
from txmanager.core.router import Router

_AT_ONCE = 500
"""How many lanes are chosen for before others get a turn: renewals must not wait for a hundred thousand."""


class Share:
    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: tuple[list[Member], frozenset[str]] = [], frozenset()
        self._mine: frozenset[str] = frozenset()
        self.chosen = 0
        """How often a lane's owner was chosen."""

    async def of(self, lanes: Collection[str], members: Sequence[Member]) -> frozenset[str]:
        """Those of the lanes that belong here; chosen again only when a lane or a worker came, left or changed."""
        seen = list(members), frozenset(lanes)
        if seen != self._seen:
            self._mine = await self._choose(*seen)
            self._seen = seen
        return self._mine

    async def _choose(self, members: Sequence[Member], lanes: frozenset[str]) -> frozenset[str]:
        offers: dict[frozenset[str], list[str]] = {}
        for member in members:
            offers.setdefault(member.lanes, []).append(member.name)
        routers: dict[tuple[bool, ...], Router] = {}
        mine = set()
        for n, lane in enumerate(lanes, 1):
            offered = tuple([lane in some for some in offers])
            router = routers.get(offered)
            if router is None:
                names = [name for some, names in offers.items() if lane in some for name in names]
                router = routers[offered] = Router((name, 1) for name in names)
            if router.choose(lane) == self._name:
                mine.add(lane)
            if n % _AT_ONCE == 0:
                await asyncio.sleep(0)
        self.chosen += len(lanes)
        return frozenset(mine)
