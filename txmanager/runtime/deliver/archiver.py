"""Takes final records to the archive: stored first, acknowledged then, retired last.

A kill at any point leaves a record that is stored again, which changes nothing. Any number may run. What was retired
while nobody archived is taken from its home, without its payload; what its home forgot, too, is lost and alerted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from txmanager.core.archive import ArchiveWriter, Ended
from txmanager.core.audit import ALL_TENANTS, AUDIT_LIMIT
from txmanager.core.errors import TxManagerError
from txmanager.core.kinds import Kind, reading_of
from txmanager.core.ledger import Gone, Ledger
from txmanager.core.models import Record
from txmanager.core.states import Status
from txmanager.runtime.lane.retirer import retire_each

_PAGE = 128
_FORGET_EVERY_S = 3600.0
_AUDIT_PAGE = 200


class ArchiverMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        registry = self.registry
        self.archived = Counter("txmanager_archived_total", "Final records stored", registry=registry)
        self.without_payload = Counter(
            "txmanager_archived_without_payload_total", "Taken from homes", registry=registry
        )
        self.differing = Counter(
            "txmanager_archive_differing_total", "Outcomes that differ from the stored one", registry=registry
        )
        self.refused = Counter("txmanager_archive_refused_total", "Records that could not be stored", registry=registry)
        self.lost = Gauge(
            "txmanager_archive_lost", "Ended intents that no archive will have", ["lane"], registry=registry
        )
        self.waiting = Gauge("txmanager_archive_waiting", "Final records that wait", ["lane"], registry=registry)


class Archiver:
    def __init__(
        self,
        ledger: Ledger,
        archive: ArchiveWriter,
        kinds: Mapping[str, Kind],
        *,
        max_lag: int,
        keep_s: int | None = None,
        every_s: float = 1.0,
        metrics: ArchiverMetrics | None = None,
    ) -> None:
        self._ledger = ledger
        self._archive = archive
        self._kinds = kinds
        self._max_lag = max_lag
        self._keep_s = keep_s
        self._every_s = every_s
        self._metrics = metrics or ArchiverMetrics()
        self._attended: set[str] = set()
        self._audited: set[tuple[str, str, str]] = set()
        self._forget_at = 0.0
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger("archiver")

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.archive_once()
            except TxManagerError as error:
                self._log.warning("archiving failed, again later", error=str(error))
            try:
                async with asyncio.timeout(self._every_s):
                    await self._stopping.wait()
            except TimeoutError:
                pass

    async def archive_once(self) -> int:
        """How many records were archived: all that waited when they were looked at."""
        count = 0
        routes = await self._ledger.routes()
        for route in routes:
            if route.lane not in self._attended:
                await self._ledger.archive(route.lane, self._max_lag)
                self._attended.add(route.lane)
            count += await self._finals(route.lane)
            count += await self._backlog(route.lane)
        self._forget_lanes({route.lane for route in routes})
        await self._audit()
        await self._forget()
        return count

    def _forget_lanes(self, there: set[str]) -> None:
        """Of lanes that left the registry nothing waits; if they come back, they are attended again."""
        for lane in self._attended - there:
            self._attended.discard(lane)
            for gauge in (self._metrics.waiting, self._metrics.lost):
                with suppress(KeyError):
                    gauge.remove(lane)

    async def _finals(self, lane: str) -> int:
        count = 0
        while records := await self._ledger.unarchived(lane, _PAGE):
            self._metrics.waiting.labels(lane).set(len(records))
            stored = await self._store_each([self._ended(record) for record in records])
            await self._ledger.acknowledge(lane, [(record.id, record.life) for record in stored])
            await retire_each(self._ledger, stored)
            count += len(stored)
            if not stored or self._stopping.is_set():
                break  # what is left cannot be stored: again later
        self._metrics.waiting.labels(lane).set(0)
        # what an archiver that was killed had acknowledged, and nobody retired
        await retire_each(self._ledger, await self._ledger.unretired(lane, _PAGE))
        return count

    async def _backlog(self, lane: str) -> int:
        count = 0
        while True:
            backlog = await self._ledger.backlog(lane, _PAGE)
            self._metrics.lost.labels(lane).set(backlog.lost)
            if not backlog.gone or self._stopping.is_set():
                return count
            found = await asyncio.gather(*(self._from_home(one) for one in backlog.gone))
            ended = [Ended(record, whole=False) for record in found if record is not None]
            await self._store(ended)
            self._metrics.without_payload.inc(len(ended))
            await self._ledger.acknowledge(lane, [(one.id, one.life) for one in backlog.gone])
            count += len(ended)

    async def _from_home(self, gone: Gone) -> Record | None:
        record = await self._ledger.read(gone.id)
        if record is None or record.life != gone.life or not record.status.final:
            self._log.error("lost to the archive: its home forgot it", intent=str(gone.id), life=gone.life)
            return None
        return record

    async def _store_each(self, ended: Sequence[Ended]) -> list[Record]:
        """Those that are stored now. One that nobody can store stays final where it is, and stops no other."""
        try:
            await self._store(ended)
        except TxManagerError:
            raise
        except Exception as error:
            if len(ended) > 1:
                return [record for one in ended for record in await self._store_each([one])]
            record = ended[0].record
            self._metrics.refused.inc()
            self._log.error("cannot be archived", intent=str(record.id), lane=record.lane, exc_info=error)
            return []
        return [one.record for one in ended]

    async def _store(self, ended: Sequence[Ended]) -> None:
        differing = await self._archive.store(ended)
        self._metrics.archived.inc(len(ended) - len(differing))
        for id in differing:
            self._metrics.differing.inc()
            self._log.error("an archived outcome differs from the ledger's; the archived one stands", intent=str(id))

    def _ended(self, record: Record) -> Ended:
        reading = reading_of(self._kinds, record)
        if reading is None:
            return Ended(record, whole=bool(record.intent.payload))
        paid = reading.deposit if record.status is Status.DONE else 0
        return Ended(record, tuple(sorted(reading.receivers)), paid, bool(reading.own_account))

    async def _audit(self) -> None:
        """The newest entries; all that there are after a start, or after a long silence."""
        entries = await self._ledger.audit(ALL_TENANTS, _AUDIT_PAGE)
        names = {(entry.id, entry.tenant, entry.refused) for entry in entries}
        if len(entries) == _AUDIT_PAGE and not names & self._audited:
            entries = await self._ledger.audit(ALL_TENANTS, AUDIT_LIMIT)
        new = [entry for entry in entries if (entry.id, entry.tenant, entry.refused) not in self._audited]
        await self._archive.store_audit(new)
        self._audited = names

    async def _forget(self) -> None:
        if self._keep_s is None or time.monotonic() < self._forget_at:
            return
        gone = await self._archive.forget(int((time.time() - self._keep_s) * 1000))
        self._forget_at = time.monotonic() + _FORGET_EVERY_S
        if gone:
            self._log.info("forgotten", intents=gone, older_than_s=self._keep_s)
