"""What an acknowledgement is worth: synced to disk, or held by every replica, through kill -9 and fail-over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from tests.ledger.conftest import redis_stage, until_replicas_confirm
from tests.ledger.redis_only import redis_of
from tests.ledger.story import LANE, Story
from tests.servers import DURABLE, HOST, Server, find_binaries
from tests.servers.fsyncs import count_fsyncs
from tests.servers.proxy import FaultProxy
from tests.waiting import until
from txmanager.core.errors import RolledBack, TxManagerError, Unavailable, Unconfirmed
from txmanager.core.ledger import Entry
from txmanager.core.models import Intent
from txmanager.core.states import Status
from txmanager.testing.ledger.stage import BASE, LONG_MS, Stage

T = TypeVar("T")

ACKNOWLEDGED_WITH_CARE = {
    "claim", "append", "baseline", "record_attempts", "resolve", "resign", "cancel_inflight", "cancel_queued", "settle",
    "retire", "move", "alias", "set_lane", "register", "fill", "charge", "override",
}  # fmt: skip
"""Steps whose acknowledgement something relies on."""


# -- fsync


async def test_no_acknowledgement_comes_before_its_fsync(make_server, prefix: str):
    server = make_server(config=DURABLE)
    async with redis_stage(server.url, prefix, durability="fsync", timeout_s=10.0) as stage:
        assert await redis_of(stage).start() == []
        story = Story(stage)
        with count_fsyncs(server) as fsyncs:
            for name, step in story.steps():
                before = fsyncs.count()
                await step()
                if name in ACKNOWLEDGED_WITH_CARE:
                    assert fsyncs.count() > before, f"{name} was acknowledged before it was on disk"
            synced = fsyncs.count()
            await story.ledger.events(LANE)
            assert fsyncs.count() == synced, "a read needs no disk"


async def test_batches_share_their_fsyncs(make_server, prefix: str):
    server = make_server(config=DURABLE)
    async with redis_stage(server.url, prefix, durability="fsync", timeout_s=10.0) as stage:
        lane = await stage.lane()
        with count_fsyncs(server) as fsyncs:
            entries = await asyncio.gather(*(stage.entry(lane) for _ in range(100)))
            await stage.ledger.append(lane, entries)
            assert fsyncs.count() < 20


async def test_server_that_syncs_every_second_is_told_apart(make_server, prefix: str):
    """The count above can fail."""
    server = make_server(config={"appendonly": "yes", "appendfsync": "no"})
    async with redis_stage(server.url, prefix, timeout_s=10.0) as stage:
        with count_fsyncs(server) as fsyncs:
            await stage.queued(await stage.lane(), 5)
            assert fsyncs.count() == 0


# -- kill -9 under load


class Load:
    """Submitters and one owner that remember what was acknowledged, and go on through every outage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.accepted: dict[str, Intent] = {}
        self.signed: dict[str, str] = {}
        self.settled: set[str] = set()
        self.claimed: dict[str, str] = {}
        self.told: list[TxManagerError] = []
        self.moved = 0
        self._number = 0
        self.stopping = False

    async def submit(self) -> None:
        while not self.stopping:
            self._number += 1
            intent = self.stage.intent(f"load{self._number}")
            entry = await self._through(lambda i=intent: self.stage.entry(LANE, i))  # type: ignore[misc]
            self.claimed[intent.id.key] = entry.life
            await self._through(lambda e=entry: self.stage.ledger.append(LANE, [e]))  # type: ignore[misc]
            self.accepted[intent.id.key] = intent

    async def work(self) -> None:
        fence = await self.stage.own(LANE)
        while not self.stopping:
            taken = await self._through(lambda: self.stage.ledger.take(fence, 8))
            cursor = await self._through(lambda: self.stage.cursor(LANE))
            batch = [
                self.stage.write(Entry(t.intent, t.life, 0), cursor + n, position=t.position)
                for n, t in enumerate(taken)
            ]
            if not batch:
                await asyncio.sleep(0.001)
                continue
            try:
                await self._through(lambda: self.stage.ledger.record_attempts(fence, cursor, batch))  # noqa: B023
            except RolledBack as error:
                self.moved += 1
                renewed = await self._through(lambda: self.stage.ledger.renew([fence], LONG_MS))
                assert renewed[0].moved, "the owner is told by its renewal, too"
                await self._through(lambda e=error: self.stage.ledger.vouch(fence, e.stored, e.found))  # type: ignore[misc]
                continue
            for write in batch:
                self.signed[write.id.key] = write.attempt.hash
            await self._through(
                lambda: self.stage.ledger.settle(fence, [self.stage.done(w) for w in batch])  # noqa: B023
            )
            self.settled.update(w.id.key for w in batch)

    async def _through(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except Unavailable as error:
                self.told.append(error)
                if self.stopping:
                    raise
                await asyncio.sleep(0.02)

    async def all_there(self, *, settles: bool) -> None:
        """Every acknowledged step is in the ledger. A settle that chain data can rebuild may be lost by a fail-over."""
        ledger = self.stage.again(timeout_s=10.0)
        records = {key: await ledger.read(intent.id) for key, intent in self.accepted.items()}
        lost = [key for key, record in records.items() if record is None]
        assert not lost, f"{len(lost)} of {len(self.accepted)} accepted intents are gone"
        for key, hash in self.signed.items():
            record = records.get(key) or await ledger.read(self.stage.intent(key).id)
            assert record is not None
            assert hash in {a.hash for a in record.attempts}, f"{key} forgot a recorded attempt"
        for key in self.settled if settles else ():
            assert records.get(key) is None or records[key].status is Status.DONE  # type: ignore[union-attr]
        lives = [r.life == self.claimed[k] for k, r in records.items() if r is not None]
        assert all(lives)


@asynccontextmanager
async def under_load(stage: Stage, submitters: int = 8) -> AsyncIterator[Load]:
    await stage.lane(LANE)
    load = Load(stage)
    tasks = [asyncio.create_task(load.work()), *(asyncio.create_task(load.submit()) for _ in range(submitters))]
    try:
        yield load
    except AssertionError as failure:
        for task in tasks:  # who ended early is the reason that nothing went on
            if task.done() and (cause := task.exception()) is not None:
                raise failure from cause
        raise
    finally:
        load.stopping = True
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    for outcome in done:
        if isinstance(outcome, BaseException) and not isinstance(outcome, Unavailable):
            raise outcome


def grows(load: Load, by: int) -> Callable[[], bool]:
    start = len(load.settled)
    return lambda: len(load.settled) >= start + by


@pytest.mark.parametrize("program", ["redis", "valkey"])
async def test_everything_acknowledged_survives_kill_9_and_restart(program: str, make_server, prefix: str):
    server: Server = make_server(getattr(find_binaries(), program), config=DURABLE)
    async with redis_stage(server.url, prefix, durability="fsync", timeout_s=1.0) as stage:
        async with under_load(stage) as load:
            for _ in range(3):
                await until(grows(load, 40), 30, what="work is done")
                await asyncio.to_thread(server.restart, kill=True)
            await until(grows(load, 40), 30, what="work goes on")
        await load.all_there(settles=True)
        assert load.moved >= 3, "a restart changes the replication id; the owner is told"
        assert redis_of(stage).vouches


# -- replicas


async def replicated(make_server) -> tuple[Server, FaultProxy, Server]:
    """A primary whose only replica hears it through a proxy."""
    primary = make_server()
    proxy = await FaultProxy(HOST, primary.port, resp=False).start()
    replica = make_server(replica_of=(HOST, proxy.port))
    await until_replicas_confirm(primary.url)
    return primary, proxy, replica


async def test_write_that_a_cut_off_replica_did_not_see_is_not_acknowledged(make_server, prefix: str):
    primary, proxy, _ = await replicated(make_server)
    try:
        async with redis_stage(primary.url, prefix, durability="replicas", timeout_s=2.0, wait_ms=150) as stage:
            lane = await stage.lane()
            fence = await stage.own(lane)
            [entry] = await stage.queued(lane)
            [taken] = await stage.ledger.take(fence, 1)
            waiting = await stage.entry(lane)
            proxy.blackhole()
            write = stage.write(entry, BASE, position=taken.position)
            for attempt in range(2):
                # the second time everything is there already: a replay that writes nothing would let WAIT lie
                with pytest.raises(Unconfirmed, match="0 of 1 replicas"):
                    await stage.ledger.append(lane, [waiting])
                with pytest.raises(Unconfirmed, match="retry the same key"):
                    await stage.ledger.record_attempts(fence, BASE, [write])
                with pytest.raises(Unconfirmed):
                    await stage.claim(waiting.intent, lane)
                assert attempt in (0, 1)
            # what needs no acknowledgement goes on
            assert (await stage.ledger.renew([fence], LONG_MS))[0].word == "renewed"
            proxy.heal(drop=True)
            await until(lambda: confirmed(lambda: stage.ledger.append(lane, [waiting])), 20)
            assert await stage.ledger.record_attempts(fence, BASE, [write]) == BASE + 1
    finally:
        await proxy.close()


async def test_successor_does_not_see_a_write_ahead_that_no_replica_has(make_server, prefix: str):
    """It would send it; after a failover nobody would know, and the intent would be signed again."""
    primary, proxy, _ = await replicated(make_server)
    try:
        async with redis_stage(primary.url, prefix, durability="replicas", timeout_s=2.0, wait_ms=150) as stage:
            lane = await stage.lane()
            fence = await stage.own(lane)
            first, second = await stage.queued(lane, 2)
            taken = await stage.ledger.take(fence, 2)
            write = stage.write(first, BASE, position=taken[0].position)
            assert await stage.ledger.record_attempts(fence, BASE, [write]) == BASE + 1
            assert len(await stage.ledger.unfinished(fence)) == 1  # the server knows the scripts from now on
            proxy.blackhole()
            write = stage.write(second, BASE + 1, position=taken[1].position)
            with pytest.raises(Unconfirmed):
                await stage.ledger.record_attempts(fence, BASE + 1, [write])
            assert await stage.ledger.release(fence)
            successor = (await stage.ledger.lease(lane, "w2", "token-of-the-successor", LONG_MS)).fence
            assert successor is not None
            with pytest.raises(Unconfirmed):
                await stage.ledger.unfinished(successor)
            proxy.heal(drop=True)
            await until(lambda: confirmed(lambda: stage.ledger.unfinished(successor)), 20)
            assert len(await stage.ledger.unfinished(successor)) == 2
    finally:
        await proxy.close()


async def test_nobody_is_told_cancelled_before_a_replica_knows(make_server, prefix: str):
    """No chain shows it: after a failover the intent would be queued again, and paid."""
    primary, proxy, _ = await replicated(make_server)
    try:
        async with redis_stage(primary.url, prefix, durability="replicas", timeout_s=2.0, wait_ms=150) as stage:
            lane = await stage.lane()
            first, entry = await stage.queued(lane, 2)
            await stage.ledger.cancel(first.intent.id)  # the server knows the scripts from now on
            id = entry.intent.id
            proxy.blackhole()
            for _ in range(2):  # carried out the first time; the second time it is only read
                with pytest.raises(Unconfirmed):
                    await stage.ledger.cancel(id)
            with pytest.raises(Unconfirmed):
                await stage.ledger.read(id)
            with pytest.raises(Unconfirmed):
                await stage.ledger.unretired(lane, 10)
            proxy.heal(drop=True)
            await until(lambda: confirmed(lambda: stage.ledger.read(id)), 20)
            assert (await stage.ledger.cancel(id)).status is Status.CANCELLED
            assert await stage.ledger.retire(await stage.ledger.unretired(lane, 10)) == 2
            proxy.blackhole()
            with pytest.raises(Unconfirmed):
                await stage.ledger.read(id)
            proxy.heal(drop=True)
            await until(lambda: confirmed(lambda: stage.ledger.read(id)), 20)
            found = await stage.ledger.read(id)
            assert found is not None
            assert found.status is Status.CANCELLED
    finally:
        await proxy.close()


async def confirmed(call: Callable[[], Awaitable[object]]) -> bool:
    try:
        await call()
    except Unconfirmed:
        return False
    return True


async def test_lost_reply_does_not_turn_a_shortfall_into_an_acknowledgement(make_server, prefix: str):
    """Executed without the replica, the reply lost, sent again: the repeat must not be believed either."""
    primary, silence, _ = await replicated(make_server)
    async with FaultProxy(HOST, primary.port) as line:
        try:
            async with redis_stage(line.url, prefix, durability="replicas", timeout_s=2.0, wait_ms=150) as stage:
                lane = await stage.lane()
                entry = await stage.entry(lane)
                silence.blackhole()
                fault = line.cut_reply("EVALSHA")
                with pytest.raises(Unconfirmed):
                    await stage.ledger.append(lane, [entry])
                assert fault.fired.is_set()
                with pytest.raises(Unconfirmed):
                    await stage.ledger.append(lane, [entry])
                silence.heal(drop=True)
                await until(lambda: confirmed(lambda: stage.ledger.append(lane, [entry])), 20)
        finally:
            await silence.close()


# -- fail-over


async def test_sentinel_failover_keeps_everything_acknowledged_and_tells_the_owner(make_sentinel, prefix: str):
    sentinel = make_sentinel(down_after_ms=500)
    await until_replicas_confirm(sentinel.url)
    async with redis_stage(sentinel.url, prefix, durability="replicas", timeout_s=1.0) as stage:
        async with under_load(stage) as load:
            await until(grows(load, 60), 30, what="work is done")
            old = await asyncio.to_thread(sentinel.fail_over)
            await asyncio.to_thread(next(s for s in sentinel.data if s is not old).start)
            await until(grows(load, 40), 60, what="work goes on with the new primary")
        await load.all_there(settles=False)
        assert load.moved >= 1
        assert any(isinstance(error, Unavailable) for error in load.told)


async def test_cluster_failover_keeps_everything_acknowledged_and_tells_the_owner(make_cluster, prefix: str):
    cluster = make_cluster(node_timeout_ms=800)
    await until_replicas_confirm(cluster.url)
    async with redis_stage(cluster.url, prefix, durability="replicas", timeout_s=1.0) as stage:
        async with under_load(stage) as load:
            await until(grows(load, 60), 30, what="work is done")
            primary = cluster.primary_of(redis_of(stage)._keys.lane(LANE))
            primary.kill9()
            await asyncio.to_thread(cluster.wait_ok)
            await asyncio.to_thread(primary.start)
            await until(grows(load, 40), 60, what="work goes on with the promoted replica")
        await load.all_there(settles=False)
        assert load.moved >= 1
