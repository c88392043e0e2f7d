"""The archiver between a ledger and an archive: nothing is lost or doubled, whatever dies and whenever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from txmanager.archive import Database, SqlReader, SqlWriter
from txmanager.core.archive import Ended, Group, UsageQuery
from txmanager.core.audit import ALL_TENANTS, AuditEntry
from txmanager.core.errors import Unavailable
from txmanager.core.kinds import Kind
from txmanager.core.listing import Filter
from txmanager.core.models import IntentId
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.deliver.archiver import Archiver
from txmanager.runtime.history import History
from txmanager.testing.ledger.stage import Stage

NO_KINDS: dict[str, Kind] = {}


class Killed(BaseException):
    """What a kill looks like from inside."""


class World:
    def __init__(self, database: Database, max_lag: int = 100) -> None:
        self.steps_left = -1
        self.ledger = MemoryLedger(hop=self._hop)
        self.stage = Stage(self.ledger, lambda *_, **__: None, lambda **_: self.ledger)
        self.writer, self.reader = SqlWriter(database), SqlReader(database)
        self.max_lag = max_lag
        self.history = History(self.ledger, lambda _: (), self.reader)

    async def _hop(self, operation: str, side: str) -> None:
        """Dies when so many requests and replies have passed."""
        self.steps_left -= 1
        if self.steps_left == 0:
            raise Killed(operation, side)

    def archiver(self) -> Archiver:
        return Archiver(self.ledger, self.writer, NO_KINDS, max_lag=self.max_lag)

    async def archived(self) -> dict[IntentId, str]:
        page = await self.reader.page(Filter(), None, 500)
        assert page.next is None
        found = {record.id: record.life for record in page.records}
        assert len(found) == len(page.records)
        return found


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/archive.db")
    await made.prepare()
    yield made
    await made.close()


async def test_what_ended_is_stored_then_retired(database: Database):
    world = World(database)
    fence = await world.stage.own(await world.stage.lane())
    assert await world.archiver().archive_once() == 0
    batch = await world.stage.settled(fence, 5)
    [live] = await world.stage.queued(fence.lane)
    before = await world.history.page(Filter(), None, 50)
    assert await world.archiver().archive_once() == 5
    assert await world.archived() == {write.id: write.life for write in batch}
    page = await world.reader.page(Filter(), None, 50)
    assert all(record.intent.payload == {"to": "bob"} for record in page.records)
    view = await world.ledger.lane(fence.lane)
    assert view is not None
    assert view.unretired == 0
    after = await world.history.page(Filter(), None, 50)
    assert [r.life for r in after.records] == [r.life for r in before.records]
    assert live.life in {r.life for r in after.records}
    assert world.history.archived


async def test_a_list_has_every_intent_once_at_every_moment_of_archiving(database: Database):
    """Live, ended, archived, retired: the same list, page by page."""
    world = World(database)
    fence = await world.stage.own(await world.stage.lane())
    await world.archiver().archive_once()
    batch = await world.stage.settled(fence, 30)
    lives = {write.life for write in batch}
    records = await world.ledger.unarchived(fence.lane, 20)
    await world.writer.store([Ended(record) for record in records])
    await world.ledger.acknowledge(fence.lane, [(r.id, r.life) for r in records[:10]])
    await world.ledger.retire(records[:5])
    found, before = [], None
    while True:
        page = await world.history.page(Filter(), before, 7)
        found += [record.life for record in page.records]
        before = page.next
        if before is None:
            break
    assert len(found) == 30
    assert set(found) == lives


async def test_killed_at_any_step_it_loses_and_doubles_nothing(database: Database):
    """One kill after each request and each reply of the ledger, in turn; a new archiver starts over."""
    world = World(database)
    fence = await world.stage.own(await world.stage.lane())
    wanted: dict[IntentId, str] = {}
    kills = 0
    for step in range(1, 60):
        wanted |= {write.id: write.life for write in await world.stage.settled(fence, 3)}
        world.steps_left = step
        try:
            await world.archiver().archive_once()
            if world.steps_left > 0:
                break
        except Killed:
            kills += 1
        world.steps_left = -1
    world.steps_left = -1
    await world.archiver().archive_once()
    assert kills > 12
    assert await world.archived() == wanted
    [line] = await world.reader.usage(UsageQuery((Group.TENANT,)))
    assert line.count == len(wanted)
    view = await world.ledger.lane(fence.lane)
    assert view is not None
    assert view.unretired == 0


async def test_an_archive_that_was_away_catches_up_from_the_homes(database: Database):
    world = World(database, max_lag=2)
    fence = await world.stage.own(await world.stage.lane())
    await world.archiver().archive_once()
    batch = await world.stage.settled(fence, 9)
    assert await world.ledger.retire(await world.ledger.unretired(fence.lane, 99)) == 7
    assert await world.archiver().archive_once() == 9
    assert await world.archived() == {write.id: write.life for write in batch}
    page = await world.reader.page(Filter(), None, 50)
    assert sorted(bool(record.intent.payload) for record in page.records) == [False] * 7 + [True] * 2
    assert (await world.ledger.backlog(fence.lane, 9)).gone == ()


async def test_what_its_home_forgot_is_told_and_stops_nothing(database: Database):
    world = World(database, max_lag=0)
    fence = await world.stage.own(await world.stage.lane())
    await world.archiver().archive_once()
    one, two = await world.stage.settled(fence, 2)
    await world.ledger.retire(await world.ledger.unretired(fence.lane, 99))
    world.ledger.homes._homes.pop(one.id)
    assert await world.archiver().archive_once() == 1
    assert await world.archived() == {two.id: two.life}
    assert (await world.ledger.backlog(fence.lane, 9)).gone == ()


async def test_a_database_that_is_away_keeps_the_records_where_they_are(database: Database):
    world = World(database)
    fence = await world.stage.own(await world.stage.lane())

    class Away(SqlWriter):
        async def store(self, ended: Sequence[Ended]) -> list[IntentId]:
            raise Unavailable("the archive does not answer")

    away = Archiver(world.ledger, Away(database), NO_KINDS, max_lag=9)
    await away.archive_once()
    batch = await world.stage.settled(fence, 3)
    with pytest.raises(Unavailable):
        await away.archive_once()
    assert {r.id for r in await world.ledger.unarchived(fence.lane, 9)} == {write.id for write in batch}
    assert await world.archiver().archive_once() == 3


async def test_one_record_that_cannot_be_stored_stops_no_other(database: Database):
    world = World(database)
    fence = await world.stage.own(await world.stage.lane())
    batch = await world.stage.settled(fence, 4)

    class Picky(SqlWriter):
        async def store(self, ended: Sequence[Ended]) -> list[IntentId]:
            if any(one.record.id == batch[1].id for one in ended):
                raise TypeError("of a kind that no database takes")
            return await super().store(ended)

    assert await Archiver(world.ledger, Picky(database), NO_KINDS, max_lag=9).archive_once() == 3
    assert {r.id for r in await world.ledger.unarchived(fence.lane, 9)} == {batch[1].id}


async def test_the_audit_is_archived(database: Database):
    world = World(database)
    archiver = world.archiver()
    for n in range(3):
        await world.ledger.note(AuditEntry("alice", "default", f"POST /v1/{n}"))
        await archiver.archive_once()
    for n in range(300):
        await world.ledger.note(AuditEntry("bob", "acme", f"POST /v1/{n}"))
    await archiver.archive_once()
    await world.archiver().archive_once()
    found = await world.reader.audit(ALL_TENANTS, "", 1_000)
    assert len(found) == 303
    assert found == await world.ledger.audit(ALL_TENANTS, 1_000)
