"""A small window reads its queue a few entries ahead; what changed since is noticed before anything is sent."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.runtime.stage import POOL, TIMING, Counting, Stage, metric
from tests.waiting import until
from txmanager.core.decide import Policy
from txmanager.core.models import LaneSpec
from txmanager.core.states import LaneState, Status

ONE = Policy(window=1, include_within_ms=500)
CALM = replace(TIMING, lease_ms=60_000, margin_ms=900)
"""Without renewals, which count what is queued and wake the lane."""


async def test_a_queue_of_twenty_is_read_in_two_takes_with_window_one(redis_stage: Stage) -> None:
    stage = redis_stage
    counting = Counting(stage.ledger)
    await stage.ledger.register(LaneSpec(stage.lane, POOL))
    ids = await stage.submit(*stage.transfers(20))
    await stage.start(ledger=counting, timing=CALM, policy=ONE)
    await stage.done(ids)
    assert counting.counts["take"] <= 4, "of twenty, and to see that there is no more"
    assert stage.amounts() == list(range(1, 21))


async def test_an_intent_that_is_cancelled_after_it_was_read_is_not_sent_and_the_next_ones_are(stage: Stage) -> None:
    read, go_on = asyncio.Event(), asyncio.Event()

    class Halting(Counting):
        async def record_attempts(self, *args: object) -> int:
            if self.counts["take"] and not read.is_set():
                read.set()
                await go_on.wait()
            return await stage.ledger.record_attempts(*args)  # type: ignore[arg-type]

    await stage.ledger.register(LaneSpec(stage.lane, POOL))
    ids = await stage.submit(*stage.transfers(6))
    running = await stage.start(ledger=Halting(stage.ledger), timing=CALM, policy=ONE)
    await until(read.is_set, what="the first was signed, and the others were read with it")
    await stage.manager.cancel(ids[2])
    go_on.set()
    records = await stage.finals(ids)
    assert [r.status for r in records] == [Status.DONE] * 2 + [Status.CANCELLED] + [Status.DONE] * 3
    assert stage.amounts() == [1, 2, 4, 5, 6]
    assert metric(running.worker, "sends_total") == 5


async def test_a_lane_that_is_paused_after_its_queue_was_read_sends_nothing_more(stage: Stage) -> None:
    running = await stage.start(policy=ONE)
    ids = await stage.submit(*stage.transfers(30))
    await until(stage.amounts, what="the first is on chain")
    await stage.ledger.set_lane(stage.lane, LaneState.PAUSED)
    [held] = running.worker._held.values()
    await until(lambda: held.lane.plan.state is LaneState.PAUSED and not held.lane.sending, what="its owner knows")
    sent = metric(running.worker, "sends_total")
    await asyncio.sleep(0.5)
    assert metric(running.worker, "sends_total") == sent < 30
    await stage.ledger.set_lane(stage.lane, LaneState.ACTIVE)
    await stage.done(ids)
    assert stage.amounts() == list(range(1, 31))
