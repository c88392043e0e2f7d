"""Finishes what crashes left half done: final records nobody retired, claims that never got a record, charges of
either.

It also says which lanes do not move, and why, so that nobody has to find out from a customer.

Any number may run; each step is safe to repeat and to race.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from txmanager.core.errors import NotFound, TxManagerError
from txmanager.core.ledger import SWEEP_AFTER_MS, Ledger
from txmanager.core.models import HOMES, Lane
from txmanager.core.states import LaneState
from txmanager.runtime.care.charges import sweep_charges
from txmanager.runtime.lane.retirer import retire_each

_PAGE = 128


class Sweeper:
    def __init__(
        self,
        ledger: Ledger,
        *,
        every_s: float = 60.0,
        claims_older_than_ms: int = SWEEP_AFTER_MS,
        stuck_after_ms: int = 300_000,
    ) -> None:
        self._ledger = ledger
        self._every_s = every_s
        self._older_than_ms = claims_older_than_ms
        self._stuck_after_ms = stuck_after_ms
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger("sweeper")

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                retired, swept = await self.sweep_once()
                charges = await sweep_charges(self._ledger)
                if retired or swept or charges:
                    self._log.info("swept", retired=retired, claims=swept, charges=charges)
                for lane, why in await self.stuck():
                    self._log.error("lane is stuck", lane=lane.id, why=why, waiting=lane.depth, reason=lane.reason)
            except TxManagerError as error:
                self._log.warning("sweep failed, again later", error=str(error))
            try:
                async with asyncio.timeout(self._every_s):
                    await self._stopping.wait()
            except TimeoutError:
                pass

    async def stuck(self) -> list[tuple[Lane, str]]:
        """Lanes whose oldest intent waits for too long, with what they wait for."""
        old = [lane for lane in await self._ledger.lanes() if lane.depth and lane.oldest_ms >= self._stuck_after_ms]
        return [(lane, _why(lane)) for lane in old]

    async def sweep_once(self) -> tuple[int, int]:
        """(final records retired, claims that went)."""
        retired = 0
        for route in await self._ledger.routes():
            if route.weight == 0:
                with suppress(NotFound):  # deleted meanwhile
                    await self._ledger.expire(route.lane)  # keyless: numbers that nobody used go to the next caller
            while records := await self._ledger.unretired(route.lane, _PAGE):
                done = await retire_each(self._ledger, records)
                retired += done
                if done == 0:
                    break  # the lane's owner was faster
        swept = 0
        for home in range(HOMES):
            swept += await self._ledger.sweep(home, self._older_than_ms)
        return retired, swept


def _why(lane: Lane) -> str:
    if lane.state in (LaneState.PAUSED, LaneState.QUARANTINED):
        return f"{lane.state}; txmanager lanes shows the reason and how to go on"
    if not lane.lease_ms:
        return "no worker owns it: start one that holds its key"
    return "its oldest intent is held or does not land; look at the record's attempts"
