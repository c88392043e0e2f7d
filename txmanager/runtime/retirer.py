"""Moves final records to their homes in batches, behind the work: home first and durable, then the tombstone.

What a crash leaves unretired stays in the lane and is found by the sweeper.
"""

from __future__ import annotations

import asyncio

import structlog

from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import Ledger
from txmanager.core.models import Record
from txmanager.runtime.metrics import Metrics

_BATCH = 128


class Retirer:
    def __init__(self, ledger: Ledger, metrics: Metrics, delay_s: float = 0.1) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._delay_s = delay_s
        self._waiting: list[Record] = []
        self._filled = asyncio.Event()
        self._log = structlog.get_logger("retirer")

    def add(self, record: Record) -> None:
        self._waiting.append(record)
        self._filled.set()

    async def run(self) -> None:
        while True:
            await self._filled.wait()
            if len(self._waiting) < _BATCH:
                await asyncio.sleep(self._delay_s)  # let a batch gather
            await self.flush()
            self._filled.clear()
            if self._waiting:
                self._filled.set()

    async def flush(self) -> None:
        while self._waiting:
            batch = self._waiting[:_BATCH]
            try:
                await self._ledger.retire(batch)
            except TxManagerError as error:
                self._log.warning("retiring later", error=str(error), waiting=len(self._waiting))
                await asyncio.sleep(1.0)
                return
            del self._waiting[: len(batch)]
            self._metrics.retired.inc(len(batch))
