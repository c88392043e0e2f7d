"""Which addresses are lanes of this installation: they sign here, so nobody may send for them past their lane."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import Ledger, Route

_EVERY_S = 2.0


class OwnLanes:
    """Read at the start, then again every two seconds. While the ledger is away, the last known ones count."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lanes: frozenset[str] = frozenset()
        self._found: tuple[Sequence[Route], ...] = (), (), ()
        """Those of the registry, the parked ones, and those of the registry again, as they were read last."""
        self._task: asyncio.Task[None] | None = None
        self._log = structlog.get_logger("gateway")

    async def start(self) -> None:
        try:
            await self._read()
        except TxManagerError as error:
            self._log.warning("the lanes of this installation could not be read yet", error=str(error)[:200])
        self._task = asyncio.create_task(self._run())

    async def _read(self) -> None:
        # One that is parked or comes back between two reads is in the read before or behind.
        found = await self._ledger.routes(), await self._ledger.parked(), await self._ledger.routes()
        if any(now is not before for now, before in zip(found, self._found, strict=True)):
            self._found = found
            self._lanes = frozenset(route.lane for routes in found for route in routes)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self._read()
            except TxManagerError as error:
                self._log.debug("lanes not read", error=str(error)[:200])

    def addresses(self, beginning: str) -> frozenset[str]:
        """Of the lanes whose id begins so (`evm:1`), what follows."""
        start = beginning + ":"
        return frozenset(lane.removeprefix(start) for lane in self._lanes if lane.startswith(start))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
