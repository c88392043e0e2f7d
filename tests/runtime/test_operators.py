"""Holds, quarantines, cancels and pauses: what an operator sees, what each verb does, and what goes on meanwhile."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import base58
import pytest
from near import wire

from tests.runtime.stage import POLICY, Running, Stage, metric
from tests.waiting import until
from txmanager.core.errors import InvalidInput, NotAllowed, RolledBack
from txmanager.core.models import IntentId, Outcome, Purpose, Record
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.care.sweeper import Sweeper

HASTY = replace(POLICY, include_within_ms=300, hold_after_ms=1000)


# -- cancelling


async def test_a_queued_intent_is_cancelled_before_anything_is_signed(stage: Stage) -> None:
    running = await stage.start(policy=replace(POLICY, window=1, include_within_ms=60_000))
    stage.devnet.fault("stall")
    first, second, third = await stage.submit(*stage.transfers(3))
    await stage.until_status(first, Status.INFLIGHT)
    cancelled = await stage.manager.cancel(second)
    assert cancelled.status is Status.CANCELLED
    stage.devnet.clear_faults()
    await stage.done([first, third])
    assert (await stage.read(second)).attempts == ()
    assert stage.amounts() == [1, 3]
    with pytest.raises(NotAllowed, match="done already"):
        await stage.manager.cancel(first)
    assert running.owned


async def test_a_cancelled_flight_that_never_landed_ends_cancelled_by_a_no_op(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"])
    await stage.start(policy=replace(POLICY, include_within_ms=60_000))
    [id] = await stage.submit(stage.transfer("a", 5))
    await stage.until_status(id, Status.INFLIGHT)
    asked = await stage.manager.cancel(id)
    assert (asked.status, asked.cancel_requested) == (Status.INFLIGHT, True)
    stage.devnet.clear_faults()
    [record] = await stage.finals([id])
    assert record.status is Status.CANCELLED
    assert [a.purpose for a in record.attempts] == [Purpose.FIRST, Purpose.NOOP]
    assert record.attempts[0].dead
    assert stage.amounts() == []


async def test_a_cancelled_flight_that_landed_is_done(stage: Stage) -> None:
    await stage.start()
    [id] = await stage.submit(stage.transfer("a", 5))
    await until(lambda: stage.amounts() == [5] or None, what="it landed")
    with suppress(NotAllowed):  # settled before the word arrived: the same answer
        await stage.manager.cancel(id)
    await stage.done([id])
    assert stage.amounts() == [5]


async def test_a_cancelled_flight_on_a_busy_lane_is_killed_by_what_follows(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"], count=1)
    await stage.start(policy=replace(POLICY, window=4, include_within_ms=60_000))
    [victim] = await stage.submit(stage.transfer("victim", 99))
    await stage.until_status(victim, Status.INFLIGHT)
    await stage.manager.cancel(victim)
    ids = await stage.submit(*stage.transfers(12))
    [record, *_] = await stage.finals([victim, *ids])
    assert record.status is Status.CANCELLED
    assert stage.amounts() == list(range(1, 13))


# -- age


async def test_an_intent_older_than_its_max_age_fails_before_signing(stage: Stage) -> None:
    await stage.start(own=False, clock=later(seconds=0))
    await until(lambda: stage.running[0].owned, what="the lane is owned")
    await stage.running[0].stop()
    ids = await stage.submit(stage.transfer("late", 1, max_age_s=5), stage.transfer("patient", 2))
    await stage.start(clock=later(seconds=60))
    late, patient = await stage.finals(ids)
    assert (late.status, late.attempts) == (Status.FAILED, ())
    assert late.outcome is not None
    assert late.outcome.error is not None
    assert (late.outcome.error["code"], late.outcome.error["new_key_helps"]) == ("max_age", True)
    assert patient.status is Status.DONE
    assert stage.amounts() == [2]


async def test_an_intent_that_ages_after_signing_never_fails_for_its_age(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"])
    first = await stage.start()
    [id] = await stage.submit(stage.transfer("a", 1, max_age_s=5))
    await stage.until_status(id, Status.INFLIGHT)
    await first.crash()
    stage.devnet.clear_faults()
    await stage.start(clock=later(seconds=60))
    await stage.done([id])


def later(seconds: int) -> Any:
    return lambda: time.time_ns() // 1_000_000 + seconds * 1000


# -- verbs on a held intent


@asynccontextmanager
async def held(stage: Stage, amount: int = 5) -> AsyncIterator[tuple[Running, IntentId, Record]]:
    """An intent that is held because its bytes go nowhere and its death cannot be proven."""
    stage.devnet.fault("drop", signer_id=stage.account["account_id"])
    running = await stage.start(policy=HASTY)
    [id] = await stage.submit(stage.transfer("held", amount))
    record = await stage.until_status(id, Status.HELD)
    yield running, id, record


async def test_a_held_intent_shows_reason_and_evidence(stage: Stage) -> None:
    async with held(stage) as (running, _, record):
        assert record.hold is not None
        assert record.hold["reason"] == "no_proof"
        assert record.hold["evidence"]["attempts"] == [a.name for a in record.attempts]
        assert metric(running.worker, "holds_total", reason="no_proof") == 1


async def test_a_held_intent_whose_hash_lands_is_done_by_itself(stage: Stage) -> None:
    async with held(stage) as (_, id, _record):
        stage.devnet.clear_faults()
        await stage.done([id])
        assert stage.amounts() == [5]


async def test_verb_track_looks_again_and_leaves_it_held(stage: Stage) -> None:
    async with held(stage) as (_, id, _record):
        await stage.manager.resolve(id, "track", "ops")

        async def answered() -> bool:
            return (await stage.read(id)).directive is None

        await until(answered, what="the word is answered")
        assert (await stage.read(id)).status is Status.HELD


async def test_verb_settle_takes_only_a_hash_of_the_intent_and_only_from_the_chain(stage: Stage) -> None:
    async with held(stage) as (_, id, record):
        with pytest.raises(NotAllowed, match="none of the intent's transactions"):
            await stage.manager.resolve(id, "settle", "ops", tx_hash="somebody-elses")
        await stage.manager.resolve(id, "settle", "ops", tx_hash=record.attempts[0].hash)

        async def answered() -> bool:
            return (await stage.read(id)).directive is None

        await until(answered, what="the word is answered")
        assert (await stage.read(id)).status is Status.HELD, "it is not on chain, so it is not done"
        stage.devnet.clear_faults()
        await stage.done([id])


@pytest.mark.parametrize("verb", ["kill", "fail"])
async def test_verbs_kill_and_fail_end_it_with_a_no_op_and_a_proof(stage: Stage, verb: str) -> None:
    async with held(stage) as (_, id, record):
        dropped = record.attempts[0]
        await stage.manager.resolve(id, verb, "ops")

        async def no_op_recorded() -> bool:
            return len((await stage.read(id)).attempts) == 2

        await until(no_op_recorded, what="the no-op is written ahead")
        stage.devnet.clear_faults()
        [ended] = await stage.finals([id])
        assert ended.status is Status.FAILED
        assert ended.outcome is not None
        assert ended.outcome.error is not None
        assert "operator" in ended.outcome.error["message"]
        assert next(a for a in ended.attempts if a.name == dropped.name).dead
        assert stage.amounts() == []


async def test_verb_resign_signs_again_only_after_the_proof(stage: Stage) -> None:
    async with held(stage) as (_, id, _record):
        await stage.manager.resolve(id, "resign", "ops")
        assert len((await stage.read(id)).attempts) == 1, "alive, so nothing is signed yet"
        # Another intent overtakes the lost bytes: now they are provably dead.
        stage.devnet.clear_faults()
        other = await stage.submit(stage.transfer("other", 7))
        records = await stage.done([id, *other])
        assert sorted(stage.amounts()) == [5, 7]
        assert records[0].directive is None


async def test_force_ends_it_without_proof_and_the_record_says_who_and_what_it_risks(stage: Stage) -> None:
    async with held(stage) as (_, id, _record):
        await stage.manager.resolve(id, "fail", "alice", force=True)
        [ended] = await stage.finals([id])
        assert ended.status is Status.FAILED
        proof = ended.attempts[0].proof
        assert proof is not None
        assert (proof["cause"], proof["by"]) == ("forced", "alice")
        assert "twice" in proof["risk"]


async def test_a_word_that_makes_no_sense_is_refused_by_name(stage: Stage) -> None:
    await stage.start()
    [id] = await stage.submit(stage.transfer("a"))
    with pytest.raises(InvalidInput, match="verb"):
        await stage.manager.resolve(id, "nuke", "ops")
    with pytest.raises(InvalidInput, match="force"):
        await stage.manager.resolve(id, "kill", "ops", force=True)
    await stage.done([id])
    with pytest.raises(NotAllowed, match="only a held one"):
        await stage.manager.resolve(id, "track", "ops")


# -- lanes


async def test_a_paused_lane_signs_no_first_attempts_and_settles_what_flies(stage: Stage) -> None:
    await stage.start(policy=replace(POLICY, window=2))
    stage.devnet.fault("stall")
    ids = await stage.submit(*stage.transfers(4))
    await stage.until_status(ids[1], Status.INFLIGHT)
    await stage.manager.pause(stage.lane, "maintenance")
    stage.devnet.clear_faults()
    await stage.done(ids[:2])
    assert [(await stage.read(i)).status for i in ids[2:]] == [Status.QUEUED] * 2
    await stage.manager.resume(stage.lane)
    await stage.done(ids)
    assert stage.amounts() == [1, 2, 3, 4]


async def test_a_drained_lane_works_off_its_queue_and_can_then_be_closed(stage: Stage) -> None:
    await stage.start()
    ids = await stage.submit(*stage.transfers(5))
    await stage.manager.drain(stage.lane)
    await stage.done(ids)

    async def closed() -> bool:
        try:
            return (await stage.manager.close_lane(stage.lane)).state is LaneState.CLOSED
        except NotAllowed:
            return False

    await until(closed, what="the lane is closed once its records are retired")
    again = await stage.producer.submit(stage.transfers(1)[0])
    assert again.replayed
    assert again.record.status is Status.DONE, "a retry still gets its result"


async def test_foreign_use_of_the_key_quarantines_with_evidence_and_other_lanes_go_on(stage: Stage) -> None:
    other = next(stage.fresh)
    running = await stage.start(stage.account, other)
    ids = await stage.submit(*stage.transfers(3))
    await stage.done(ids)
    names = {"account_id": stage.account["account_id"], "public_key": stage.account["public_key"]}
    used = stage.devnet.nonce(stage.account)
    stage.devnet.admin("/foreign", {**names, "by": 3})
    await until(lambda: stage.devnet.nonce(stage.account) == used + 3, what="somebody else used the key")
    [stuck] = await stage.submit(stage.transfer("stuck", 50))
    lane = await stage.until_lane(LaneState.QUARANTINED)
    assert lane.reason == "foreign_nonce_use"
    assert int(lane.evidence["final_nonce"]) >= int(lane.evidence["cursor"]) - 1
    assert stage.lane in lane.evidence["resolve"]
    assert metric(running.worker, "quarantines_total", reason="foreign_nonce_use") == 1
    pool = stage.pool_of(other)
    await stage.done(await stage.submit(*[stage.transfer(f"o{n}", n, pool=pool) for n in range(1, 4)]))
    assert (await stage.read(stuck)).status is Status.INFLIGHT, "nothing is signed, nothing fails"
    assert len((await stage.read(stuck)).attempts) == 1

    await stage.manager.rebaseline(stage.lane)
    [record] = await stage.done([stuck])
    assert len(record.attempts) == 2
    assert record.attempts[0].dead
    assert (await stage.until_lane(LaneState.ACTIVE)).reason == ""
    assert [a for a in stage.amounts() if a == 50] == [50]


async def test_a_rebaseline_vouches_for_foreign_nonces_below_the_cursor_through_a_restart(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"])
    running = await stage.start(policy=replace(POLICY, include_within_ms=60_000))
    ids = await stage.submit(*stage.transfers(3))
    await stage.until_status(ids[2], Status.INFLIGHT)
    names = {"account_id": stage.account["account_id"], "public_key": stage.account["public_key"]}
    used = stage.devnet.nonce(stage.account)
    stage.devnet.admin("/foreign", {**names, "by": 2})
    await until(lambda: stage.devnet.nonce(stage.account, "final") == used + 2, what="somebody used our second nonce")
    stage.devnet.clear_faults()
    await running.crash()
    await stage.start()
    assert (await stage.until_lane(LaneState.QUARANTINED)).reason == "foreign_nonce_use"
    await stage.manager.rebaseline(stage.lane)
    await stage.done(ids)
    assert sorted(stage.amounts()) == [1, 2, 3]
    await stage.running[-1].crash()
    await stage.start()
    await stage.done(await stage.submit(stage.transfer("after", 4)))
    assert (await stage.until_lane(LaneState.ACTIVE)).reason == ""


async def test_a_deleted_key_quarantines_the_lane_and_a_restored_one_goes_on(stage: Stage) -> None:
    other = next(stage.fresh)
    await stage.start(stage.account, other)
    await stage.done(await stage.submit(stage.transfer("before", 1)))
    change_key(stage, wire.Action.DeleteKey(public_key=public(stage)))
    [id] = await stage.submit(stage.transfer("after", 2))
    lane = await stage.until_lane(LaneState.QUARANTINED)
    assert lane.reason == "key_missing"
    pool = stage.pool_of(other)
    await stage.done(await stage.submit(stage.transfer("elsewhere", 3, pool=pool)))
    assert (await stage.read(id)).status is Status.INFLIGHT

    full = wire.AccessKey(nonce=0, permission=wire.AccessKeyPermission.FullAccess())
    change_key(stage, wire.Action.AddKey(public_key=public(stage), access_key=full))
    await stage.manager.rebaseline(stage.lane)
    await stage.until_lane(LaneState.ACTIVE)


def public(stage: Stage) -> Any:
    raw = base58.b58decode(stage.account["public_key"].partition(":")[2])
    return wire.PublicKeyWire.Ed25519(data=raw)


def change_key(stage: Stage, action: Any) -> None:
    second = {**stage.account, **stage.account["keys"][1]}
    _, sent = stage.devnet.sign(second, stage.account["account_id"], action)
    stage.devnet.rpc("send_tx", {"signed_tx_base64": sent, "wait_until": "FINAL"})


async def test_a_lane_whose_key_was_never_on_chain_is_quarantined_and_not_started_at_nonce_0(stage: Stage) -> None:
    change_key(stage, wire.Action.DeleteKey(public_key=public(stage)))
    await stage.start()
    lane = await stage.until_lane(LaneState.QUARANTINED)
    assert (lane.reason, lane.cursor) == ("key_missing", None)


async def test_a_ledger_that_is_not_the_one_written_to_quarantines_before_anything_is_signed(stage: Stage) -> None:
    first = await stage.start()
    await stage.done(await stage.submit(*stage.transfers(2)))
    await first.crash()
    assert isinstance(stage.ledger, MemoryLedger)
    stage.ledger.history_id = "another history"
    stage.ledger.vouches = False
    await stage.start()
    lane = await stage.until_lane(LaneState.QUARANTINED)
    assert lane.reason == "ledger_rolled_back"
    assert (lane.evidence["stored"], lane.evidence["found"]) == ("memory", "another history")
    await stage.manager.rebaseline(stage.lane)
    await stage.until_lane(LaneState.ACTIVE)
    await stage.done(await stage.submit(stage.transfer("after", 9)))
    assert stage.amounts() == [1, 2, 9]


async def test_an_owner_that_came_after_a_roll_back_never_vouches_for_it_and_resume_does_not_either(
    stage: Stage,
) -> None:
    """What it knows of the lane it read from the very ledger that forgot: only a rebaseline is an operator's word."""
    first = await stage.start()
    await stage.done(await stage.submit(*stage.transfers(2)))
    await first.crash()
    [id] = await stage.submit(stage.transfer("after", 9))
    assert isinstance(stage.ledger, MemoryLedger)
    stage.ledger.history_id = "another history"
    stage.ledger.vouches = False
    await stage.start()
    await stage.until_lane(LaneState.QUARANTINED)
    for _ in range(2):
        await stage.manager.resume(stage.lane)
        lane = await stage.until_lane(LaneState.QUARANTINED)
        assert (lane.reason, lane.moved) == ("ledger_rolled_back", True)
    assert (await stage.read(id)).status is Status.QUEUED
    await stage.manager.rebaseline(stage.lane)
    await stage.done([id])
    assert stage.amounts() == [1, 2, 9]


async def test_after_lost_writes_what_was_paid_is_cancelled_before_the_lane_goes_on(stage: Stage) -> None:
    first = await stage.start()
    await stage.done(await stage.submit(*stage.transfers(2)))
    await first.crash()
    paid, unpaid = await stage.submit(stage.transfer("paid", 8), stage.transfer("unpaid", 9))
    assert isinstance(stage.ledger, MemoryLedger)
    stage.ledger.history_id = "another history"
    stage.ledger.vouches = False
    await stage.start()
    await stage.until_lane(LaneState.QUARANTINED)
    with pytest.raises(RolledBack):
        await stage.manager.cancel(paid)
    await stage.manager.rebaseline(stage.lane, paused=True)

    async def rebaselined() -> bool:
        view = await stage.ledger.lane(stage.lane)
        return view is not None and view.reason.startswith("rebaselined")

    await until(rebaselined, what="the owner vouched, and waits")
    assert (await stage.manager.cancel(paid)).status is Status.CANCELLED
    assert (await stage.read(unpaid)).status is Status.QUEUED
    await stage.manager.resume(stage.lane)
    await stage.done([unpaid])
    assert stage.amounts() == [1, 2, 9]


async def test_two_different_ends_of_one_intent_quarantine_the_lane_and_the_first_stands(stage: Stage) -> None:
    await stage.start()
    stage.devnet.fault("stall")
    [id] = await stage.submit(stage.transfer("a", 5))
    await stage.until_status(id, Status.INFLIGHT)
    assert isinstance(stage.ledger, MemoryLedger)
    store = stage.ledger.stores[stage.lane]
    store.records[id] = replace(store.records[id], status=Status.CANCELLED, outcome=Outcome(Status.CANCELLED))
    stage.devnet.clear_faults()
    lane = await stage.until_lane(LaneState.QUARANTINED)
    assert lane.reason == "unexplained_outcome"
    assert (lane.evidence["stored"], lane.evidence["seen"]) == ("cancelled", "done")
    assert (await stage.read(id)).status is Status.CANCELLED


# -- finding what is stuck


async def test_the_sweeper_names_lanes_that_do_not_move_and_why(stage: Stage) -> None:
    running = await stage.start()
    await stage.done(await stage.submit(*stage.transfers(3)))
    await running.stop()
    await stage.submit(stage.transfer("waits", 5))
    [(lane, why)] = await Sweeper(stage.ledger, stuck_after_ms=0).stuck()
    assert lane.id == stage.lane
    assert "no worker owns it" in why
    await stage.manager.pause(stage.lane, "maintenance")
    [(_, why)] = await Sweeper(stage.ledger, stuck_after_ms=0).stuck()
    assert why.startswith("paused")
