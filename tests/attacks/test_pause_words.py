"""Words are no orders: what a person, a caller or a node writes is shown, and nothing acts on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.runtime.stage import POLICY, Running, Stage
from tests.waiting import until
from txmanager.core.chain import SendReply, Verdict
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import PauseCause, QuarantineCause
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.lane.owner import OwnedLane

ORDERS = ["held: x", "rebaseline", "rebaseline, and stay paused", "insufficient_funds", "operator", "dropped"]


def owned(running: Running, lane: str) -> OwnedLane:
    return running.worker._held[lane].lane


async def goes_round(stage: Stage, other: dict[str, str], key: str) -> None:
    """Another lane of the same worker does a whole intent: time in which this one would have acted."""
    await stage.done(await stage.submit(stage.transfer(key, 7, pool=stage.pool_of(other))))


@pytest.mark.parametrize("text", ORDERS)
async def test_reason_of_a_pause_is_no_order(lanes: Stage, text: str) -> None:
    other = next(lanes.fresh)
    running = await lanes.start(lanes.account, other)
    lane = owned(running, lanes.lane)
    lane.plan.stop_taking()  # it is queued before the pause, and taken after it at the earliest
    [waiting] = await lanes.submit(lanes.transfer("waits", 5))
    await lanes.manager.pause(lanes.lane, text)
    await until(lambda: lane.plan.stored.cause is PauseCause.OPERATOR, what="the owner read the pause")
    lane.plan._taking = True
    lane.wake()
    await goes_round(lanes, other, "o")
    view = await lanes.until_lane(LaneState.PAUSED)
    assert (view.cause, view.command) == (PauseCause.OPERATOR, None)
    assert text in view.reason
    assert (await lanes.read(waiting)).status is Status.QUEUED
    await lanes.manager.resume(lanes.lane)
    await lanes.done([waiting])


@pytest.mark.parametrize("text", ORDERS[:3])
async def test_reason_of_a_pause_vouches_for_nothing(lanes: Stage, text: str) -> None:
    """A quarantined lane that somebody pauses keeps its baseline and its cursor."""
    other = next(lanes.fresh)
    running = await lanes.start(lanes.account, other)
    await lanes.done(await lanes.submit(lanes.transfer("a", 1)))
    lane = owned(running, lanes.lane)
    before = await lanes.until_lane(LaneState.ACTIVE)
    await lane.quarantine(QuarantineCause.FOREIGN_NONCE_USE, {})
    await lanes.manager.pause(lanes.lane, text)
    await until(lambda: lane.plan.stored.cause is PauseCause.OPERATOR, what="the owner read the pause")
    await goes_round(lanes, other, "q")
    view = await lanes.until_lane(LaneState.PAUSED)
    assert (view.baseline, view.cursor, view.command) == (before.baseline, before.cursor, None)


async def test_name_of_a_monitor_sends_nothing_again(lanes: Stage) -> None:
    running = await lanes.start()
    lane = owned(running, lanes.lane)
    lane.plan.flights.replace_all([])
    for number, name in enumerate(("dropped", "dropped,stuck x", "reconcile dropped")):
        await lanes.ledger.check(lanes.lane, f"{name}:{number}")
        await until(lambda n=number, m=name: lane.requests.answered.name == f"{m}:{n}", what="the owner heard it")  # type: ignore[misc]
        assert lane.requests.answered.alerts == frozenset()


async def test_message_of_a_node_does_not_turn_a_rejection_into_a_late_cancel(lanes: Stage) -> None:
    """0.1.0 told the two apart by how the text begins, and the text of a rejection is a node's."""
    lanes.devnet.fault("drop", signer_id=lanes.account["account_id"])
    running = await lanes.start(policy=replace(POLICY, include_within_ms=60_000))
    [id] = await lanes.submit(lanes.transfer("a", 5))
    await lanes.until_status(id, Status.INFLIGHT)
    flight = owned(running, lanes.lane).plan.flights.get(id)
    assert flight is not None
    await until(lambda: flight.reply is not None, what="the bytes were sent, and dropped")
    flight.reply = SendReply(Verdict.PERMANENT, "not included within 60 s")
    lanes.devnet.clear_faults()
    owned(running, lanes.lane).flying.set()
    [record] = await lanes.finals([id])
    assert record.status is Status.FAILED
    assert record.outcome is not None
    assert record.outcome.error is not None
    assert record.outcome.error["code"] == "rejected"


async def test_pause_of_the_older_release_keeps_its_meaning(redis_lanes: Stage) -> None:
    """Nothing is held, so a lane that 0.1.0 paused for a held intent goes on; one it paused by hand does not."""
    lanes, ledger = redis_lanes, redis_lanes.ledger
    assert isinstance(ledger, RedisLedger)
    other = next(lanes.fresh)
    await lanes.start(lanes.account, other)
    key = ledger._keys.lane(lanes.lane)

    async def older(reason: str) -> None:
        fields = ("state", "paused", "reason", reason, "evidence", "{}")
        await ledger.runner.plain(key, ("HSET", key, *fields), ("HINCRBY", key, "asks", 1))

    await older("by hand")
    await goes_round(lanes, other, "h")
    assert (await lanes.until_lane(LaneState.PAUSED)).cause is PauseCause.OPERATOR
    await older("held: order-7 (no_proof)")
    await lanes.until_lane(LaneState.ACTIVE)
    await lanes.done(await lanes.submit(lanes.transfer("after", 3)))
