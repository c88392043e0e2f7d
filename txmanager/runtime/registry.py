"""The pools' lanes as this process knows them: one read of the registry for all who ask, and a bell when it changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog

from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import LaneRegistry, Route

FRESH_S = 2.0
Lanes = tuple[str, ...]


class Registry:
    def __init__(self, ledger: LaneRegistry, fresh_s: float = FRESH_S) -> None:
        self._ledger = ledger
        self._fresh_s = fresh_s
        self._pools: Mapping[str, Lanes] = {}
        self._routes: Sequence[Route] = ()
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._watchers: dict[Callable[[], None], str] = {}
        self._log = structlog.get_logger("events")

    def known(self, pool: str) -> Lanes:
        """As last read. The same object as long as nothing changed."""
        return self._pools.get(pool, ())

    async def lanes(self, pool: str) -> Lanes:
        """At most `fresh_s` old."""
        if asyncio.get_running_loop().time() - self._read_at > self._fresh_s:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
                self._reading.add_done_callback(self._was_read)
            await asyncio.shield(self._reading)
        return self.known(pool)

    def watch(self, pool: str, ring: Callable[[], None]) -> None:
        """Call `ring` when the pool's lanes changed; the registry is read for that once, however many watch."""
        self._watchers[ring] = pool
        if self._watching is None:
            self._watching = asyncio.create_task(self._keep_fresh())

    def unwatch(self, ring: Callable[[], None]) -> None:
        self._watchers.pop(ring, None)
        if not self._watchers:
            self.close()

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(self._fresh_s)
            try:
                await self.lanes("")
            except TxManagerError as error:
                self._log.warning("cannot read the registry", error=str(error))

    async def _read(self) -> None:
        routes = await self._ledger.routes()
        self._read_at = asyncio.get_running_loop().time()
        if routes is self._routes:
            return
        self._routes = routes
        found: dict[str, list[str]] = {}
        for route in routes:
            found.setdefault(route.pool, []).append(route.lane)
        before, now = self._pools, {pool: tuple(sorted(lanes)) for pool, lanes in found.items()}
        changed = {pool for pool in before.keys() | now.keys() if before.get(pool) != now.get(pool)}
        self._pools = {pool: lanes if pool in changed else before[pool] for pool, lanes in now.items()}
        for ring, pool in list(self._watchers.items()):
            if pool in changed:
                ring()

    def _was_read(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # whoever waits has it; nobody may wait any more
