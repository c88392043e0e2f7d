"""The ledger's server restarts, hides, loses replies or fails over while a lane works: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.devnet.process import Devnet
from tests.runtime.stage import POLICY, TIMING, Account, Stage, metric
from tests.servers import DURABLE, HOST, Sentinel, Server
from tests.servers.proxy import FaultProxy
from tests.waiting import until
from txmanager.core.errors import TxManagerError, Unconfirmed
from txmanager.core.ledger import Claim, Entry
from txmanager.core.models import Intent, IntentId, LaneSpec, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.accept.producer import Producer


async def persist(stage: Stage, intents: list[Intent]) -> list[IntentId]:
    """As a caller does it: the same keys again until all are accepted."""
    waiting = intents

    async def all_in() -> bool:
        nonlocal waiting
        try:
            answers = await stage.producer.submit_many(waiting)
        except TxManagerError:
            return False
        waiting = [i for i, a in zip(waiting, answers, strict=True) if isinstance(a, TxManagerError)]
        return not waiting

    await until(all_in, 30, what="the intents are accepted")
    return [i.id for i in intents]


async def ended(stage: Stage, ids: list[IntentId], timeout: float = 40) -> None:
    async def all_final() -> bool:
        try:
            return all([(await stage.read(i)).status.final for i in ids])
        except TxManagerError:
            return False

    await until(all_final, timeout, every=0.1, what="the intents end")
    records = await stage.done(ids)
    amounts = sorted(stage.amounts())
    assert amounts == sorted(int(r.id.key[1:]) for r in records), "each was paid once"


async def test_a_lane_works_the_same_on_redis(redis_stage: Stage) -> None:
    await redis_stage.start()
    records = await redis_stage.done(await redis_stage.submit(*redis_stage.transfers(50)))
    assert redis_stage.amounts() == list(range(1, 51))
    assert [len(r.attempts) for r in records] == [1] * 50


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_restart_of_the_server_in_the_middle_loses_nothing(
    devnet: Devnet, fresh_accounts: Iterator[Account], make_server: Callable[..., Server], how: str
) -> None:
    server = make_server(config=DURABLE)
    stage = Stage(devnet, RedisLedger(server.url, prefix="r"), fresh_accounts)
    try:
        await stage.start()
        ids = await persist(stage, stage.transfers(40))
        await until(lambda: len(stage.amounts()) >= 5, what="some landed")
        await asyncio.to_thread(server.restart, kill=how == "kill")
        ids += await persist(stage, stage.transfers(20, first=41))
        await ended(stage, ids)
        assert (await stage.until_lane(LaneState.ACTIVE)).reason == "", "fsync vouches for what was acknowledged"
    finally:
        await stage.close()


@pytest.mark.parametrize("accident", ["cut_reply", "half_reply", "drop_request"])
async def test_lost_replies_of_the_server_are_asked_again_and_change_nothing(
    devnet: Devnet, fresh_accounts: Iterator[Account], make_server: Callable[..., Server], accident: str
) -> None:
    server = make_server(config=DURABLE)
    async with FaultProxy(HOST, server.port) as proxy:
        stage = Stage(devnet, RedisLedger(proxy.url, prefix="c"), fresh_accounts)
        try:
            running = await stage.start()
            ids: list[IntentId] = []
            for round_ in range(12):
                getattr(proxy, accident)("EVALSHA", skip=round_ % 5)
                ids += await persist(stage, stage.transfers(4, first=1 + 4 * round_))
            await ended(stage, ids)
            assert running.owned == [stage.lane]
        finally:
            proxy.disarm()
            await stage.close()


async def test_a_connection_that_is_cut_again_and_again_costs_time_only(
    devnet: Devnet, fresh_accounts: Iterator[Account], make_server: Callable[..., Server]
) -> None:
    server = make_server(config=DURABLE)
    async with FaultProxy(HOST, server.port) as proxy:
        stage = Stage(devnet, RedisLedger(proxy.url, prefix="x"), fresh_accounts)
        try:
            await stage.start()
            ids: list[IntentId] = []
            for round_ in range(8):
                ids += await persist(stage, stage.transfers(5, first=1 + 5 * round_))
                proxy.disconnect()
            await ended(stage, ids)
        finally:
            await stage.close()


async def test_a_server_that_hides_past_the_lease_stops_the_lane_until_it_is_back(
    devnet: Devnet, fresh_accounts: Iterator[Account], make_server: Callable[..., Server]
) -> None:
    server = make_server(config=DURABLE)
    async with FaultProxy(HOST, server.port) as proxy:
        stage = Stage(devnet, RedisLedger(proxy.url, prefix="b", timeout_s=0.4), fresh_accounts)
        try:
            running = await stage.start()
            ids = await persist(stage, stage.transfers(30))
            await until(lambda: len(stage.amounts()) >= 3, what="some landed")
            proxy.blackhole()
            await until(lambda: running.owned == [], 5, what="the lane stops by its own clock")
            proxy.heal(drop=True)
            ids += await persist(stage, stage.transfers(10, first=31))
            await ended(stage, ids)
        finally:
            proxy.heal(drop=True)
            await stage.close()


async def test_a_failover_of_sentinel_with_every_write_on_the_replica_goes_on_by_itself(
    devnet: Devnet, fresh_accounts: Iterator[Account], make_sentinel: Callable[..., Sentinel]
) -> None:
    sentinel = make_sentinel(down_after_ms=500)
    ledger = RedisLedger(sentinel.url, prefix="s", durability="replicas")
    stage = Stage(devnet, ledger, fresh_accounts)
    try:
        running = await stage.start(timing=replace(TIMING, lease_ms=3000, margin_ms=500))
        ids = await persist(stage, stage.transfers(30))
        await until(lambda: len(stage.amounts()) >= 3, what="some landed")
        old = sentinel.primary
        await asyncio.to_thread(sentinel.fail_over)
        # The new primary needs a replica again before it may acknowledge anything.
        old.start()
        ids += await persist(stage, stage.transfers(10, first=31))
        await ended(stage, ids, timeout=60)
        lane = await stage.until_lane(LaneState.ACTIVE)
        assert lane.reason == ""
        assert not lane.moved, "the new history was accepted"
        assert metric(running.worker, "quarantines_total") == 0
    finally:
        await stage.close()


async def test_a_ledger_that_does_not_confirm_writes_sends_nothing_and_says_so(
    devnet: Devnet, fresh_accounts: Iterator[Account], make_sentinel: Callable[..., Sentinel]
) -> None:
    sentinel = make_sentinel()
    stage = Stage(devnet, RedisLedger(sentinel.url, prefix="u", durability="replicas", wait_ms=100), fresh_accounts)
    try:
        strict = replace(POLICY, window=1, include_within_ms=60_000)
        running = await stage.start(timing=replace(TIMING, lease_ms=6000, margin_ms=1000), policy=strict)
        stage.devnet.fault("stall")
        ids = await persist(stage, stage.transfers(3))
        await until(lambda: metric(running.worker, "sends_total") == 1, what="the first is sent")
        replica = sentinel.replica
        replica.pause()
        stage.devnet.clear_faults()
        await until(lambda: metric(running.worker, "stalled", lane=stage.lane) == 1, what="the lane says that it waits")
        with pytest.raises(Unconfirmed):
            await stage.submit(stage.transfer("k4", 4))
        assert metric(running.worker, "sends_total") == 1
        replica.resume()
        ids += await persist(stage, [stage.transfer("k4", 4)])
        await ended(stage, ids)
        await until(lambda: metric(running.worker, "stalled", lane=stage.lane) == 0, what="the lane goes on")
    finally:
        await stage.close()


async def test_a_retry_that_finds_no_lane_is_accepted_only_once_replicas_have_it(
    make_sentinel: Callable[..., Sentinel],
) -> None:
    """Found by `make sim`: the only lane drained, so the retry was answered from a read, and a failover lost it."""
    sentinel = make_sentinel()
    ledger = RedisLedger(sentinel.url, prefix="d", durability="replicas", wait_ms=100)
    lane = LaneSpec("near:localnet:relayer.near:ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp", "p")
    intent = new_intent(key="k1", pool="p", kind="near.transfer", payload={"receiver_id": "a.near", "amount": "1"})
    try:
        await until(lambda: registered(ledger, lane), 20, what="the lane is registered")
        [claim] = await ledger.claim([Claim(intent.id, intent.fingerprint, lane.id, "life")])
        await ledger.set_lane(lane.id, LaneState.DRAINING, "", {})
        replica = sentinel.replica
        replica.pause()
        with pytest.raises(Unconfirmed):
            await ledger.append(lane.id, [Entry(intent, claim.life, claim.born)])
        with pytest.raises(Unconfirmed):
            await Producer(ledger).submit(intent)
        replica.resume()
        told = await Producer(ledger).submit(intent)
        assert (told.replayed, told.record.status) == (True, Status.QUEUED)
    finally:
        await ledger.close()


async def registered(ledger: RedisLedger, lane: LaneSpec) -> bool:
    try:
        await ledger.register(lane)
    except TxManagerError:
        return False
    return True


async def test_a_failover_that_may_have_lost_writes_quarantines_and_signs_nothing(
    devnet: Devnet, fresh_accounts: Iterator[Account], make_sentinel: Callable[..., Sentinel]
) -> None:
    sentinel = make_sentinel(down_after_ms=500)
    stage = Stage(devnet, RedisLedger(sentinel.url, prefix="n", durability="none"), fresh_accounts)
    try:
        first = await stage.start(timing=replace(TIMING, lease_ms=3000, margin_ms=500), policy=POLICY)
        await stage.done(await persist(stage, stage.transfers(5)))
        await first.crash()
        await asyncio.to_thread(sentinel.fail_over)
        await until(lambda: reachable(stage), 20, what="the new primary answers")
        await stage.start(own=False)
        lane = await stage.until_lane(LaneState.QUARANTINED, timeout=20)
        assert lane.reason == "ledger_rolled_back"
        assert lane.evidence["stored"] != lane.evidence["found"]
        assert "rebaseline" in lane.evidence["resolve"]
    finally:
        await stage.close()


async def reachable(stage: Stage) -> bool:
    try:
        return await stage.ledger.lane(stage.lane) is not None
    except TxManagerError:
        return False
