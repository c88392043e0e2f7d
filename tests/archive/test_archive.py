"""What is stored once is there once, exactly, and found by everything it can be asked for; on both databases."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.archive.records import BASE_MS, KINDS, POOLS, TENANTS, ended
from txmanager.archive import Database, SqlReader, SqlWriter, reading
from txmanager.archive.tables import metadata
from txmanager.core.archive import Ended, Group, UsageQuery
from txmanager.core.audit import ALL_TENANTS, AuditEntry
from txmanager.core.errors import InvalidSettings, Unavailable
from txmanager.core.listing import Filter, Mark, mark_of
from txmanager.core.models import Record
from txmanager.core.states import Status

INDEXED = ["order", "deep"]


def receivers(record: Record) -> set[str]:
    return {str(record.intent.payload["to"])}


async def listed(reader: SqlReader, wanted: Filter, limit: int = 7) -> list[Record]:
    found: list[Record] = []
    before: Mark | None = None
    for _ in range(10_000):
        page = await reader.page(wanted, before, limit)
        assert len(page.records) <= limit
        found += page.records
        if page.next is None:
            return found
        assert before is None or page.next < before, "every page goes on"
        before = page.next
    raise AssertionError("the list never ends")


def readable(one: Ended) -> Record:
    """As it comes back: JSON has no character zero here, and bytes are not kept."""
    return one.record


async def test_a_record_comes_back_exactly_as_it_was(database: Database):
    writer, reader = SqlWriter(database, INDEXED), SqlReader(database)
    for n in range(40):
        one = ended(n)
        assert await writer.store([one]) == []
        back = await reader.read(one.record.id, one.record.life)
        assert back is not None
        bare = replace(back, intent=replace(back.intent, payload={}, metadata={}), outcome=None)
        assert bare == replace(one.record, intent=replace(one.record.intent, payload={}, metadata={}), outcome=None)
        assert back.intent.payload["n"] == n
        assert back.intent.payload["deep"]["yocto"] == str(10**30)
        assert back.outcome is not None
        assert one.record.outcome is not None
        assert (back.outcome.cost, back.outcome.nonce) == (one.record.outcome.cost, one.record.outcome.nonce)
    assert await reader.read(ended(1).record.id, "another-life") is None


async def test_a_row_without_payload_says_so(database: Database):
    one = replace(ended(1), whole=False)
    await SqlWriter(database).store([one])
    back = await SqlReader(database).read(one.record.id, one.record.life)
    assert back is not None
    assert back.intent.payload == {}


async def test_storing_again_changes_nothing_and_a_differing_outcome_is_told(database: Database):
    writer, reader = SqlWriter(database, INDEXED), SqlReader(database)
    batch = [ended(n, tenant="default") for n in range(30)]
    assert await writer.store(batch[:20]) == []
    assert await writer.store(batch) == []
    assert await writer.store(batch) == []
    assert len(await listed(reader, Filter())) == 30
    [line] = await reader.usage(UsageQuery((Group.TENANT,)))
    assert line.count == 30
    other = ended(3, tenant="default", cost=1)
    assert await writer.store([other, *batch[4:]]) == [other.record.id]
    back = await reader.read(other.record.id, other.record.life)
    assert back is not None
    assert back.outcome == (await listed(reader, Filter(hash="hash3")))[0].outcome
    assert (await reader.usage(UsageQuery((Group.TENANT,)))) == [line]
    assert await writer.store([]) == []


async def test_two_archivers_at_once_store_everything_once(url: str, database: Database):
    batch = [ended(n) for n in range(200)]
    others = [Database(url) for _ in range(3)]

    async def run(one: Database, seed: int) -> None:
        mine = batch.copy()
        random.Random(seed).shuffle(mine)
        for at in range(0, len(mine), 20):
            assert await SqlWriter(one, INDEXED).store(mine[at : at + 20]) == []

    await asyncio.gather(*(run(one, seed) for seed, one in enumerate(others)))
    for one in others:
        await one.close()
    reader = SqlReader(database)
    assert len({r.life for r in await listed(reader, Filter(), 50)}) == 200
    lines = await reader.usage(UsageQuery(()))
    assert sum(line.count for line in lines) == 200
    wanted = sum(one.record.outcome.cost or 0 for one in batch if one.record.outcome is not None)
    assert sum(line.cost for line in lines) == wanted


FILTERS: list[dict[str, Any]] = [
    {},
    {"pool": "odd"},
    {"status": Status.FAILED},
    {"kind": KINDS[1]},
    {"lane": "near:net:relayer:ed25519.1"},
    {"error": "reverted"},
    {"key_prefix": "refund-"},
    {"key_prefix": "order-000001"},
    {"key_prefix": "nothing"},
    {"hash": "hash17"},
    {"receiver": "r3.near"},
    {"metadata": {"order": "5"}},
    {"metadata": {"order": "5"}, "receiver": "r3.near"},
    {"since": BASE_MS + 20, "until": BASE_MS + 40},
    {"pools": frozenset({"main"})},
    {"pools": frozenset()},
    {"pool": "odd", "status": Status.DONE, "kind": KINDS[0], "key_prefix": "order"},
    {"status": Status.CANCELLED, "receiver": "r1.near", "pool": "main"},
]


@pytest.mark.parametrize("few", [1_000, 3])
async def test_every_filter_shows_what_it_names_newest_first(
    database: Database, monkeypatch: pytest.MonkeyPatch, few: int
):
    monkeypatch.setattr(reading, "_FEW", few)
    world = [ended(n) for n in range(400)]
    await SqlWriter(database, INDEXED).store(world)
    reader = SqlReader(database)
    for told in FILTERS:
        for tenant in (None, "acme", "nobody"):
            wanted = Filter(tenant=tenant, **told)
            right = [one.record for one in world if wanted.sees(one.record, receivers)]
            right.sort(key=mark_of, reverse=True)
            for limit in (9, 500):
                found = await listed(reader, wanted, limit)
                assert [mark_of(r) for r in found] == [mark_of(r) for r in right], (wanted, limit)
    assert len(await listed(reader, Filter(), 50)) == 400


async def test_a_page_looks_at_so_many_rows_and_says_so(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "SCAN_LIMIT", 20)
    monkeypatch.setattr(reading, "_FEW", 0)
    await SqlWriter(database).store([ended(n) for n in range(200)])
    reader = SqlReader(database)
    wanted = Filter(key_prefix="order-0000003")
    first = await reader.page(wanted, None, 10)
    assert (first.records, first.partial) == ((), True)
    world = [ended(n).record for n in range(200)]
    assert {r.life for r in await listed(reader, wanted, 10)} == {
        r.life for r in world if r.id.key.startswith("order-0000003")
    }


async def test_what_is_old_goes_and_the_sums_stay(database: Database):
    writer, reader = SqlWriter(database, INDEXED), SqlReader(database)
    world = [ended(n) for n in range(100)]
    await writer.store(world)
    before = await reader.usage(UsageQuery((Group.POOL, Group.DAY)))
    at = sorted(one.record.updated_at for one in world)[60]
    assert await writer.forget(at) == sum(one.record.updated_at < at for one in world)
    assert {r.life for r in await listed(reader, Filter(), 50)} == {
        one.record.life for one in world if one.record.updated_at >= at
    }
    assert await reader.usage(UsageQuery((Group.POOL, Group.DAY))) == before
    assert await writer.forget(at) == 0
    async with database.reading() as connection:
        for table in ("tags", "documents"):
            orphans = text(f"SELECT count(*) FROM {table} WHERE seq NOT IN (SELECT seq FROM intents)")
            assert (await connection.execute(orphans)).scalar_one() == 0


async def test_usage_is_exact_to_the_last_unit_whatever_it_is_summed_up_by(database: Database):
    world = [ended(n) for n in range(300)]
    await SqlWriter(database).store(world)
    reader = SqlReader(database)
    cost = sum(one.record.outcome.cost or 0 for one in world if one.record.outcome is not None)
    assert cost > 10**26
    for by in ((), (Group.TENANT,), (Group.TOKEN, Group.KIND), (Group.DAY,), tuple(Group)):
        lines = await reader.usage(UsageQuery(by))
        assert sum(line.cost for line in lines) == cost
        assert sum(line.count for line in lines) == 300
        assert sum(line.deposits for line in lines) == sum(one.deposit for one in world)
        assert all(set(line.group) == {group.value for group in by} for line in lines)
    [acme] = await reader.usage(UsageQuery((Group.TENANT,), tenant="acme"))
    mine = [one for one in world if one.record.id.tenant == "acme"]
    assert (acme.count, acme.failed) == (len(mine), sum(one.record.status is Status.FAILED for one in mine))
    assert await reader.usage(UsageQuery((), pools=frozenset())) == []
    assert await reader.usage(UsageQuery((), until="2000-01-01")) == []


async def test_audit_lines_are_kept_once_and_read_newest_first(database: Database):
    writer, reader = SqlWriter(database), SqlReader(database)
    lines = [
        AuditEntry("alice", TENANTS[n % 2], "pause", f"lane{n}", at=1000 + n, id=f"{1000 + n}-0") for n in range(20)
    ]
    await writer.store_audit(lines[:15])
    await writer.store_audit(lines)
    await writer.store_audit([])
    found = await reader.audit(ALL_TENANTS, "", 8)
    assert found == lines[:11:-1]
    assert await reader.audit(ALL_TENANTS, found[-1].id, 100) == lines[11::-1]
    assert {entry.tenant for entry in await reader.audit("acme", "", 100)} == {"acme"}


async def test_migrations_make_the_tables_that_the_code_reads(database: Database):
    def differences(connection: Any) -> list[Any]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    await database.prepare()
    async with database.reading() as connection:
        found = await connection.run_sync(differences)
    assert [one for one in found if one[1].name != "alembic_version"] == []


async def test_many_processes_may_make_the_tables_at_once(url: str):
    made = [Database(url) for _ in range(4)]
    await asyncio.gather(*(one.prepare() for one in made))
    for one in made:
        await one.close()


PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "time": ({}, "intents_by_time"),
    "pool": ({"pool": "main"}, "intents_by_pool"),
    "status": ({"status": Status.FAILED}, "intents_by_status"),
    "kind": ({"kind": KINDS[0]}, "intents_by_kind"),
    "lane": ({"lane": "near:net:relayer:ed25519.1"}, "intents_by_lane"),
    "error": ({"error": "reverted"}, "intents_by_error"),
    "hash": ({"hash": "hash17"}, "tags"),
    "receiver": ({"receiver": "r3.near"}, "tags"),
    "metadata": ({"metadata": {"order": "5"}}, "tags"),
    "many": ({"pool": "odd", "status": Status.DONE, "kind": KINDS[0], "key_prefix": "order"}, "intents_by_kind"),
}
SCANS = ("SCAN intents", "SCAN tags", "Seq Scan", "TEMP B-TREE", "Sort")


async def explained(
    database: Database, connection: AsyncConnection, told: dict[str, Any], before: Mark | None, stop: Mark | None
) -> str:
    wanted = Filter(tenant="acme", pools=frozenset(POOLS), **told)
    picked = reading._index(wanted, "acme", few=False)
    page = reading.page_statement(wanted, picked, reading._rest(wanted, picked), before, stop).limit(51)
    compiled = page.compile(dialect=database._engine.dialect, compile_kwargs={"literal_binds": True})
    explain = "EXPLAIN " if database.postgres else "EXPLAIN QUERY PLAN "
    answer = await connection.execute(text(explain + str(compiled).replace(":", "\\:")))
    return "\n".join(str(row[-1]) for row in answer)


async def test_every_filter_reads_one_index_in_its_order(database: Database):
    """No scan of a table and no sort: the planner's own words."""
    await SqlWriter(database, INDEXED).store([ended(n) for n in range(2_000)])
    async with database.reading() as connection:
        if database.postgres:
            await connection.execute(text("ANALYZE"))
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            await connection.execute(text("SET LOCAL enable_bitmapscan = off"))
        for told, index in PLANS.values():
            plan = await explained(database, connection, told, (BASE_MS + 300, "5"), (BASE_MS + 10, "5"))
            assert index in plan, plan
            for scan in SCANS:
                assert scan not in plan, plan


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite://", "postgres://x"])
def test_an_archive_that_cannot_be_is_refused_by_the_settings_name(url: str):
    with pytest.raises(InvalidSettings, match=r"archive\.url"):
        Database(url)


async def test_a_database_that_is_away_is_away_and_no_password_is_told():
    database = Database("postgresql://someone:hunter2hunter2@127.0.0.1:1/archive", timeout_s=1)
    with pytest.raises(Unavailable, match="the archive does not answer") as told:
        await SqlReader(database).page(Filter(), None, 1)
    assert "hunter2" not in str(told.value)
    await database.close()


def test_the_world_of_these_tests_has_everything():
    world = [ended(n).record for n in range(400)]
    assert {r.id.pool for r in world} == set(POOLS)
    assert {r.status for r in world} == {Status.DONE, Status.FAILED, Status.CANCELLED}
