"""A world with an archive: two archivers that crash, lose replies and lag, a database that commits and does not say so.

At the end every intent that was retired has one row, the one of its life, with the outcome that its caller was told.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from tests.sim.history import Broke, Operated, RolledBack
from tests.sim.history import Ended as End
from tests.sim.loop import PROCESS, Life, Process
from tests.sim.plan import Plan
from tests.sim.world import World
from txmanager.core.archive import Ended
from txmanager.core.audit import AuditEntry
from txmanager.core.errors import Unavailable
from txmanager.core.models import IntentId, Record
from txmanager.core.states import LaneState
from txmanager.runtime.deliver.archiver import Archiver, ArchiverMetrics

METRICS = ArchiverMetrics()
Name = tuple[IntentId, str]


class SimArchive:
    """A database: all of a transaction or nothing, and a client that may die before, or after it without a word."""

    def __init__(self, world: ArchivedWorld) -> None:
        self._world = world
        self.rows: dict[Name, Ended] = {}
        self.counted = 0
        """What the books of usage say."""

    async def store(self, ended: Sequence[Ended]) -> list[IntentId]:
        fault = await self._way()
        differing = self.commit(ended)
        await self._way_back(fault)
        return differing

    def commit(self, ended: Sequence[Ended]) -> list[IntentId]:
        differing: list[IntentId] = []
        for one in ended:
            name = one.record.id, one.record.life
            known = self.rows.setdefault(name, one)
            if known is one:
                self.counted += 1
            elif known.record.outcome != one.record.outcome:
                differing.append(one.record.id)
        return differing

    async def store_audit(self, entries: Sequence[AuditEntry]) -> None:
        await self._way_back(await self._way())

    async def forget(self, before: int) -> int:
        return 0

    async def close(self) -> None: ...

    async def _way(self) -> str | None:
        process, world = PROCESS.get(), self._world
        fault = world.faults.draw("ledger", "archiver database") if process is not None else None
        await asyncio.sleep(0.001)
        if fault == "crash" and process is not None and world.faults.amount("ledger") < 0.5:
            process.kill()
            await process.gone()
        if world.database_down or fault == "lost_request":
            raise Unavailable("the archive does not answer")
        return fault

    async def _way_back(self, fault: str | None) -> None:
        process = PROCESS.get()
        if fault == "crash" and process is not None:
            process.kill()
            await process.gone()
        if fault == "lost_reply":
            raise Unavailable("the archive does not answer")


class ArchivedWorld(World):
    archiver_kind: type[Archiver] = Archiver

    def __init__(self, plan: Plan, *more: object) -> None:
        super().__init__(plan, *more)  # type: ignore[arg-type]
        self.dice = random.Random(f"archive:{plan.seed}")
        self.archive = SimArchive(self)
        self.database_down = False
        self.max_lag = self.dice.choice((0, 1, 2, 50))
        self.archivers: dict[int, Process] = {}
        self.gaps = 0

    # -- the course

    async def main(self) -> None:
        for n in range(2):
            self._start_archiver(n)
        for _ in range(3):
            at = self.dice.uniform(0.0, self.plan.chaos_s)
            self.loop.later(at, self._database, True)
            self.loop.later(at + self.dice.uniform(0.5, 6.0), self._database, False)
        for _ in range(4):
            self.loop.later(self.dice.uniform(0.0, self.plan.chaos_s), self._kill, self.dice.randrange(2))
        self._count_gaps()
        await super().main()
        self._check()

    async def _ask_all(self) -> None:
        for _ in range(20):  # for the archivers to come to an end
            await asyncio.sleep(1.0)
        await super()._ask_all()

    def _database(self, down: bool) -> None:
        self.database_down = down and not self.healing

    def _calm(self) -> None:
        super()._calm()
        self.database_down = False
        for process in self.archivers.values():
            process.thaw()

    def _kill(self, n: int) -> None:
        if not self.healing:
            self.archivers[n].kill()

    def _start_archiver(self, n: int) -> None:
        back = 0.2 + 4.0 * self.dice.random()
        process = Process(self.loop, f"archiver{n}", lambda _: self.loop.later(back, self._start_archiver, n))
        self.archivers[n] = process
        archiver = self.archiver_kind(self.ledger, self.archive, {}, max_lag=self.max_lag, every_s=0.7, metrics=METRICS)
        process.spawn(self._run(archiver, process))

    async def _run(self, archiver: Archiver, process: Process) -> None:
        try:
            await archiver.run()
        except Exception as error:
            if not self.loop.over and process.life is not Life.DEAD:
                self.history.note(Broke(self.loop.time(), f"archive: an archiver ended: {error!r}"))
        process.kill()

    def _count_gaps(self) -> None:
        self.gaps = max(self.gaps, sum(len(store.gone) for store in self.ledger.stores.values()))
        self.loop.later(0.2, self._count_gaps)

    # -- the questions

    @property
    def _exact(self) -> bool:
        """After a server forgot something nobody says that the archive has no more than the ledger."""
        facts = self.history.facts
        lost = any(isinstance(f, RolledBack) or (isinstance(f, Operated) and f.what == "failover") for f in facts)
        return not lost and not self._forgetful

    def _broke(self, what: str) -> None:
        self.history.note(Broke(self.loop.time(), f"archive: {what}"))

    def _check(self) -> None:
        rows, told = self.archive.rows, dict[Name, Record]()
        for record in self.ledger.homes.finals(self._server_ms()):
            told[record.id, record.life] = record
        waiting: set[Name] = set()
        for store in self.ledger.stores.values():
            if store.archive != self.max_lag:
                self._broke(f"lane {store.spec.id} does not wait for the archive")
            if store.state is LaneState.CLOSED:
                continue
            for record in store.records.values():
                if record.status.final:
                    waiting.add((record.id, record.life))
            if store.gone:
                self._broke(f"{len(store.gone)} are in the backlog of {store.spec.id} with archivers at work")
            if store.lost and not self._forgetful:
                self._broke(f"{store.lost} of {store.spec.id} are lost")
        if waiting:
            self._broke(f"{len(waiting)} final records wait with archivers at work")
        if self.archive.counted != len(rows):
            self._broke(f"the books have {self.archive.counted}, the rows are {len(rows)}")
        for name, record in told.items():
            row = rows.get(name)
            if row is None:
                if self._exact:
                    self._broke(f"{record.id.key} was retired and is not in the archive")
            elif self._exact and row.record.outcome != record.outcome:
                self._broke(f"{record.id.key} is archived with {row.record.outcome}, not {record.outcome}")
            elif row.whole and not row.record.intent.payload:
                self._broke(f"{record.id.key} is said to be whole and has no payload")
        ended = {(f.id, f.life) for f in self.history.facts if isinstance(f, End)}
        for id, life in sorted(ended - rows.keys()) if self._exact else ():
            self._broke(f"{id.key} ended in life {life} and is not in the archive")
        for (id, life), row in rows.items():
            if row.record.life != life or not row.record.status.final:
                self._broke(f"{id.key} is archived as {row.record.status}")
