"""Many lanes, many workers: who owns what, how fast it moves, and what a worker does whose lease is in doubt."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.runtime.stage import POLICY, TIMING, Running, Stage, lane_of, make_chain, metric
from tests.waiting import until
from txmanager.core.errors import Unavailable
from txmanager.core.ledger import Ledger, Route
from txmanager.core.models import LaneSpec
from txmanager.core.states import Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.lane.worker import Service

TWO_LEASES_S = 2 * TIMING.lease_ms / 1000


def split(*workers: Running) -> list[str]:
    """Every lane that is owned, once per owner."""
    return sorted(lane for running in workers for lane in running.owned)


@pytest.mark.alone
async def test_lanes_spread_over_two_workers_within_two_lease_times_of_a_join(stage: Stage) -> None:
    accounts = [stage.account, *(next(stage.fresh) for _ in range(7))]
    lanes = sorted(map(lane_of, accounts))
    first = await stage.start(*accounts)
    assert first.owned == lanes
    joined = time.monotonic()
    second = await stage.start(*accounts, own=False)
    await until(lambda: second.owned and split(first, second) == lanes, TWO_LEASES_S + 1, what="the lanes are shared")
    assert time.monotonic() - joined <= TWO_LEASES_S
    assert 0 < len(first.owned) < 8
    families = first.worker.metrics.registry.collect()
    told = {s.labels["lane"] for f in families if f.type == "gauge" for s in f.samples if "lane" in s.labels}
    assert told == set(first.owned), "the new owner tells how the others are"


async def test_a_lane_that_is_found_in_the_registry_is_served_until_it_is_deleted(stage: Stage) -> None:
    """As lanes of callers' addresses are: each time one comes into being it is served again."""
    ledger, other = stage.ledger, next(stage.fresh)
    assert isinstance(ledger, MemoryLedger)
    lane, chain = lane_of(other), make_chain(stage.devnet.url, [stage.account, other])
    spec = LaneSpec(lane, "others")

    def discover(route: Route) -> Service | None:
        return Service(spec, chain, POLICY) if route.lane == lane else None

    running = await stage.start(discover=discover)
    for _ in range(2):
        await ledger.register(spec)
        await until(lambda: running.owned == sorted([stage.lane, lane]), what="it is served")
        ledger.stores.pop(lane)
        await until(lambda: running.owned == [stage.lane], what="it is gone")
        await until(lambda: lane not in running.worker._services, what="and forgotten")
    await running.stop()
    await chain.close()


@pytest.mark.alone
async def test_lanes_of_a_dead_worker_move_within_two_lease_times(stage: Stage) -> None:
    accounts = [stage.account, *(next(stage.fresh) for _ in range(7))]
    lanes = sorted(map(lane_of, accounts))
    first = await stage.start(*accounts)
    second = await stage.start(*accounts, own=False)
    await until(lambda: second.owned and split(first, second) == lanes, what="the lanes are shared")
    died = time.monotonic()
    await first.crash()
    await until(lambda: second.owned == lanes, TWO_LEASES_S + 1, what="the survivor owns all")
    assert time.monotonic() - died <= TWO_LEASES_S


async def test_a_graceful_stop_hands_lanes_over_at_once(stage: Stage) -> None:
    first = await stage.start(timing=replace(TIMING, lease_ms=6000, margin_ms=1000))
    second = await stage.start(own=False)
    owner, heir = (first, second) if first.owned else (second, first)
    lane = await stage.ledger.lane(stage.lane)
    assert lane is not None
    assert lane.lease_ms > 0
    await owner.stop()
    released = await stage.ledger.lane(stage.lane)
    assert released is not None
    assert released.owner in ("", heir.worker.name)
    await until(lambda: heir.owned == [stage.lane], 3, what="the heir has it, long before the lease would have run out")


async def test_a_stop_settles_what_flies_within_its_grace(stage: Stage) -> None:
    running = await stage.start(policy=replace(POLICY, window=4))
    ids = await stage.submit(*stage.transfers(30))
    await stage.until_status(ids[3], Status.INFLIGHT)
    await running.stop()
    statuses = [(await stage.read(i)).status for i in ids]
    assert set(statuses) <= {Status.DONE, Status.QUEUED}, "nothing is left in flight"
    assert Status.QUEUED in statuses, "and nothing new was taken"
    await stage.start()
    await stage.done(ids)
    assert stage.amounts() == list(range(1, 31))


async def test_lanes_keep_their_order_while_they_move_between_workers(stage: Stage) -> None:
    accounts = [stage.account, *(next(stage.fresh) for _ in range(3))]
    pools = [stage.pool_of(a) for a in accounts]
    running = [await stage.start(*accounts)]
    ids = []
    for n in range(1, 61):
        intents = [stage.transfer(f"{pool}-{n}", n, pool=pool) for pool in pools]
        ids += await stage.submit(*intents)
        if n == 20:
            running.append(await stage.start(*accounts, own=False))
        if n == 40:
            await running[0].stop()
    records = await stage.done(ids, timeout=40)
    for account in accounts:
        mine = [r for r in records if r.lane == lane_of(account)]
        firsts = [r.attempts[0].nonce for r in mine]
        assert firsts == sorted(firsts), "first attempts in the order of acceptance"
        assert sorted(stage.amounts(account)) == list(range(1, 61))


class Unreachable:
    """A ledger whose server goes away for one client."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.away = False
        self.refused: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **more: Any) -> Any:
            if self.away:
                self.refused.append(name)
                raise Unavailable("the server is away")
            return await found(*args, **more)

        return call


async def test_a_worker_that_cannot_renew_stops_before_its_lease_runs_out_by_its_own_clock(stage: Stage) -> None:
    ledger = Unreachable(stage.ledger)
    running = await stage.start(ledger=ledger, policy=replace(POLICY, include_within_ms=60_000))
    stage.devnet.fault("drop", signer_id=stage.account["account_id"])
    [id] = await stage.submit(stage.transfer("a", 1))
    await stage.until_status(id, Status.INFLIGHT)
    lane = await stage.ledger.lane(stage.lane)
    assert lane is not None
    assert lane.lease_ms > 0
    with capture_logs() as logs:
        ledger.away = True
        await until(lambda: any(e["event"] == "lane stopped" for e in logs), 5, what="the lane stops itself")
        still = await stage.ledger.lane(stage.lane)
    assert still is not None
    assert still.owner == running.worker.name, "nobody else could have started yet"
    [stopped] = [e for e in logs if e["event"] == "lane stopped"]
    assert "not renewed in time" in stopped["why"]
    stage.devnet.clear_faults()
    ledger.away = False
    await stage.done([id])
    assert stage.amounts() == [1]


async def test_a_fenced_worker_writes_nothing_and_leaves_its_lane_with_a_log_line(stage: Stage) -> None:
    """Its lease ran out unnoticed (a paused process), another one took over; then it wakes up."""
    zombie = await stage.start(policy=replace(POLICY, window=2))
    stage.devnet.fault("stall")
    ids = await stage.submit(*stage.transfers(4))
    await stage.until_status(ids[1], Status.INFLIGHT)
    store = stage.ledger.stores[stage.lane]  # type: ignore[attr-defined]
    store.lease_until = 0
    with capture_logs() as logs:
        thief = await stage.ledger.lease(stage.lane, "thief", "token", 60_000)
        assert thief.word == "leased"
        stage.devnet.clear_faults()
        await until(lambda: zombie.owned == [], what="the zombie leaves")
    told = [e for e in logs if e["event"] in ("lane lost", "lane stopped")]
    assert told
    assert told[0]["lane"] == stage.lane
    assert [(await stage.read(i)).status for i in ids[2:]] == [Status.QUEUED] * 2
    assert not any([(await stage.read(i)).status.final for i in ids]), "it settled nothing either"


async def test_renewal_does_not_wait_for_a_slow_lane(stage: Stage) -> None:
    accounts = [stage.account, next(stage.fresh)]

    async def slow_take(*args: Any, **more: Any) -> Any:
        await asyncio.sleep(3 * TIMING.lease_ms / 1000)
        return await stage.ledger.take(*args, **more)

    class Slow(Unreachable):
        def __getattr__(self, name: str) -> Any:
            return slow_take if name == "take" else super().__getattr__(name)

    running = await stage.start(*accounts, ledger=Slow(stage.ledger))
    before = metric(running.worker, "lease_changes_total", change="won")
    await stage.done(await stage.submit(stage.transfer("a", 1)))
    assert metric(running.worker, "lease_changes_total", change="won") == before, "no lease was lost meanwhile"
    assert running.owned == sorted(map(lane_of, accounts))


async def test_a_lane_that_breaks_is_tried_again_and_others_never_notice(stage: Stage) -> None:
    other = next(stage.fresh)
    broken = 3

    def point(name: str) -> None:
        nonlocal broken
        if name == "after_write_ahead" and broken:
            broken -= 1
            raise RuntimeError("a bug")

    await stage.start(stage.account, point=point)
    await stage.start(other)
    ids = await stage.submit(*stage.transfers(3))
    pool = stage.pool_of(other)
    await stage.done(await stage.submit(stage.transfer("o", 9, pool=pool)))
    await stage.done(ids, timeout=30)
    assert stage.amounts() == [1, 2, 3]


@pytest.mark.parametrize("point", ["after_take", "after_sign", "after_write_ahead", "after_broadcast", "before_settle"])
async def test_a_worker_that_vanishes_at_any_point_leaves_one_effect_per_intent(stage: Stage, point: str) -> None:
    reached = asyncio.Event()

    def vanish(name: str) -> None:
        if name == point and not reached.is_set():
            reached.set()
            stage.running[0].task.cancel()
            raise asyncio.CancelledError

    await stage.start(point=vanish)
    ids = await stage.submit(*stage.transfers(6))
    await asyncio.wait_for(reached.wait(), 10)
    await stage.running[0].crash()
    await stage.start()
    await stage.done(ids)
    assert stage.amounts() == [1, 2, 3, 4, 5, 6]
