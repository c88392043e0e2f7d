"""What a disk keeps: through kills, under two processes at once, from an older release, and after a restored backup."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.ledger.conftest import durable_stage
from tests.servers.processes import make_folder, remove_folder
from tests.servers.workerd import Workerd, bundles
from txmanager.core.errors import Fenced, Refused, RolledBack, Unavailable
from txmanager.core.ledger import Entry
from txmanager.core.models import Fence
from txmanager.core.states import Status
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.testing.ledger.stage import BASE, LONG_MS, Stage

OLDER = Path(__file__).parent / "release-1"
LANE = "near:net:relayer:ed25519.a"


@pytest.fixture
def disk() -> Iterator[Path]:
    folder = make_folder("disk")
    yield folder
    remove_folder(folder)


@pytest.fixture
def workerd(disk: Path) -> Iterator[Workerd]:
    with Workerd(disk=disk) as running:
        yield running


@pytest.fixture
async def stage(workerd: Workerd, prefix: str) -> AsyncIterator[Stage]:
    async with durable_stage(workerd.url, prefix) as made:
        yield made


async def test_killed_worker_has_everything_that_was_answered(workerd: Workerd, stage: Stage):
    """The answer waits for the disk: SIGKILL right after it loses nothing."""
    lane = await stage.lane()
    fence = await stage.own(lane)
    sent: list[tuple[Entry, int]] = []
    for round in range(20):
        [entry] = await stage.queued(lane)
        [taken] = await stage.ledger.take(fence, 1)
        nonce = BASE + round
        write = stage.write(entry, nonce, position=taken.position)
        await stage.ledger.record_attempts(fence, nonce, [write])
        sent.append((entry, nonce))
        await asyncio.to_thread(workerd.restart)
    found = await stage.ledger.unfinished(fence)
    assert [(r.id, r.attempts[0].nonce) for r in found] == [(entry.intent.id, nonce) for entry, nonce in sent]
    assert await stage.cursor(lane) == BASE + 20


async def test_two_processes_on_one_disk_cannot_break_an_order(disk: Path, workerd: Workerd, stage: Stage, prefix: str):
    """A zombie beside its successor: both serve the same objects. Every step of both is one transaction on the disk."""
    lane = await stage.lane()
    with Workerd(disk=disk) as twin:
        other = DurableObjectLedger(twin.url, prefix=prefix, timeout_s=20.0)
        try:
            await _race(stage, other, lane)
        finally:
            await other.close()


async def _race(stage: Stage, other: DurableObjectLedger, lane: str) -> None:
    first = await stage.own(lane)
    entries = await stage.queued(lane, 30)
    second = (await other.lease(lane, "zombie", "other-token", LONG_MS)).fence
    assert second is None, "the lease is one, whoever serves it"
    # both processes append at once: every entry once, places in one order
    halves = [[await stage.entry(lane) for _ in range(20)] for _ in range(2)]
    both = await asyncio.gather(
        *(stage.ledger.append(lane, [e]) for e in halves[0]), *(other.append(lane, [e]) for e in halves[1])
    )
    places = [answer.position for [answer] in both]
    assert len(set(places)) == 40
    # the owner is replaced through the second process; the first one fences it off from there on
    await stage.ledger.renew([first], 1)
    await asyncio.sleep(0.01)
    leased = await other.lease(lane, "heir", "heirs-token", LONG_MS)
    assert leased.fence is not None
    heir: Fence = leased.fence
    taken = await other.take(heir, 70)
    assert [t.intent.id for t in taken[:30]] == [e.intent.id for e in entries]
    assert [t.position for t in taken[30:]] == sorted(places, key=lambda p: tuple(map(int, p.split("-"))))
    writes = [stage.write(Entry(t.intent, t.life, 0), BASE + n, position=t.position) for n, t in enumerate(taken)]
    with pytest.raises(Fenced):
        await stage.ledger.record_attempts(first, BASE, writes[:1])

    async def write(ledger: DurableObjectLedger, n: int) -> bool:
        try:
            await ledger.record_attempts(heir, BASE + n, [writes[n]])
        except Refused:
            return False
        return True

    mine = stage.ledger
    assert isinstance(mine, DurableObjectLedger)
    for n in range(20):  # the same attempt through both processes at once, and the one after it: once each, in order
        told = await asyncio.gather(write(mine, n), write(other, n), write(other, n + 1))
        assert told[0]
        assert told[1]
        view = await mine.lane(lane)
        assert view is not None
        assert view.cursor in (BASE + n + 1, BASE + n + 2)
        if view.cursor == BASE + n + 2:
            assert told[2]
    found = await mine.unfinished(heir)
    nonces = [r.attempts[0].nonce for r in found]
    assert nonces == list(range(BASE, BASE + len(found)))
    assert [r.id for r in found] == [t.intent.id for t in taken[: len(found)]]
    assert [r.id for r in await other.unfinished(heir)] == [r.id for r in found]


async def test_disk_of_an_older_release_opens_and_goes_on(disk: Path):
    """`release-1` is what the first release left: a lane with an intent in each state, and their homes."""
    for dump in OLDER.rglob("*.sql"):
        to = disk / dump.relative_to(OLDER).with_suffix(".sqlite")
        to.parent.mkdir(parents=True, exist_ok=True)
        with sqlite3.connect(to) as database:
            database.executescript(dump.read_text())
    with Workerd(disk=disk, incarnation="1") as running:
        async with durable_stage(running.url, "older") as stage:
            view = await stage.ledger.lane(LANE)
            assert view is not None
            assert (view.cursor, view.depth, view.unfinished, view.unretired) == (BASE + 3, 3, 2, 1)
            fence = await stage.own(LANE, "w2")
            found = await stage.ledger.unfinished(fence)
            assert [r.status.value for r in found] == ["held", "inflight"]
            [taken] = await stage.ledger.take(fence, 9)
            write = stage.write(Entry(taken.intent, taken.life, 0), BASE + 3, position=taken.position)
            assert await stage.ledger.record_attempts(fence, BASE + 3, [write]) == BASE + 4
            [record] = await stage.ledger.unretired(LANE, 9)
            assert await stage.ledger.retire([record]) == 1
            done = await stage.ledger.read(record.id)
            assert done is not None
            assert done.status is Status.DONE
            assert {m.state.value for m in await stage.ledger.routes()} == {"active"}


async def test_after_a_restored_backup_nothing_is_signed_or_cancelled_until_somebody_vouches(disk: Path, prefix: str):
    """The operator restores an older disk and raises INCARNATION: what was sent since then may be under way."""
    backup = make_folder("backup")
    with Workerd(disk=disk) as running:
        async with durable_stage(running.url, prefix) as stage:
            fence = await stage.own(await stage.lane())
            [entry] = await stage.queued(fence.lane)
            [taken] = await stage.ledger.take(fence, 1)
            running.kill()
            shutil.copytree(disk, backup, dirs_exist_ok=True)
            running.start()
            write = stage.write(entry, BASE, position=taken.position)
            await stage.ledger.record_attempts(fence, BASE, [write])
    with Workerd(disk=backup, incarnation="second") as restored:
        async with durable_stage(restored.url, prefix) as stage:
            view = await stage.ledger.lane(fence.lane)
            assert view is not None
            assert view.moved
            assert not stage.ledger.vouches
            with pytest.raises(RolledBack):
                await stage.ledger.record_attempts(fence, BASE, [write])
            with pytest.raises(RolledBack):
                await stage.ledger.cancel(entry.intent.id)
            assert await stage.ledger.vouch(fence, view.history_id, view.found_history_id)
            assert (await stage.ledger.cancel(entry.intent.id)).status is Status.CANCELLED
    remove_folder(backup)


async def test_production_bundle_knows_no_hook_of_the_tests(disk: Path, prefix: str):
    with Workerd(disk=disk, bundle=bundles() / "worker.js") as running:
        async with durable_stage(running.url, prefix) as stage:
            lane = await stage.lane()
            with pytest.raises(Exception, match="older than this release"):
                await stage.expire("schema", lane=lane)
            assert [a.word for a in await stage.ledger.append(lane, [await stage.entry(lane)])] == ["appended"]


async def test_worker_that_is_away_is_unavailable_and_comes_back(workerd: Workerd, prefix: str):
    async with durable_stage(workerd.url, prefix, timeout_s=0.5) as stage:
        lane = await stage.lane()
        workerd.kill()
        with pytest.raises(Unavailable, match="outcome is unknown"):
            await stage.ledger.lane(lane)
        await asyncio.to_thread(workerd.start)
        assert await stage.ledger.lane(lane) is not None
