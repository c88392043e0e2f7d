"""Moves final records to their homes in batches, behind the work: home first and durable, then the tombstone.

What a crash leaves unretired stays in the lane and is found by the sweeper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from txmanager.core.budgets import excess
from txmanager.core.errors import Busy, TxManagerError, Unavailable
from txmanager.core.ledger import Homes
from txmanager.core.models import Record
from txmanager.runtime.lane.metrics import Metrics

_BATCH = 128


class Retirer:
    def __init__(self, ledger: Homes, metrics: Metrics, delay_s: float = 0.1) -> None:
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
                await retire_each(self._ledger, batch, self._metrics)
            except TxManagerError as error:
                self._log.warning("retiring later", error=str(error), waiting=len(self._waiting))
                await asyncio.sleep(1.0)
                return
            for record in batch:
                self._tell_excess(record)
            del self._waiting[: len(batch)]
            self._metrics.retired.inc(len(batch))

    def _tell_excess(self, record: Record) -> None:
        """Booked all the same: no signature of ours may cost more than was charged, so somebody has to look."""
        if (over := excess(record)) > 0:
            self._metrics.excess.labels(record.lane).inc()
            self._log.error("cost more than its charge", intent=str(record.id), lane=record.lane, excess=str(over))


async def retire_each(ledger: Homes, records: Sequence[Record], metrics: Metrics | None = None) -> int:
    """How many are retired now. One that nobody can process stays final where it is, is set aside with its exception,
    and stops none of the others."""
    try:
        return await ledger.retire(records)
    except (Unavailable, Busy):
        raise
    except Exception as error:
        if len(records) > 1:
            return sum([await retire_each(ledger, [record], metrics) for record in records])
        [record] = records
        log = structlog.get_logger("retirer")
        log.error("final record set aside", intent=str(record.id), lane=record.lane, exc_info=error)
        if metrics is not None:
            metrics.shelved.labels(record.lane).inc()
        await ledger.shelve(record.id, record.lane, f"{type(error).__name__}: {str(error)[:300]}")
        return 0
