"""Rule 8: an intent that asks for too much ends alone; a lane that is poor waits for funds, and nothing fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.devnet.process import Devnet, transfer
from tests.runtime.stage import NETWORK, POLICY, Stage, metric
from tests.waiting import until
from txmanager.core.models import Intent, Purpose, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import PauseCause
from txmanager.ledger.memory import MemoryLedger

NEAR = 10**24
MEANS_MUCH = replace(POLICY, max_deposit=10 * NEAR)
"""An intent of 1 NEAR is ordinary here, so a lane that lacks it is poor."""


# -- too much for the lane


async def test_rule_8_an_amount_above_the_balance_fails_alone_before_it_is_signed(stage: Stage) -> None:
    await stage.start(policy=replace(POLICY, window=3))
    intents = [*stage.transfers(3), stage.transfer("greedy", 90_000_000 * NEAR), *stage.transfers(3, first=4)]
    records = await stage.finals(await stage.submit(*intents))
    assert [r.status for r in records] == [Status.DONE] * 3 + [Status.FAILED] + [Status.DONE] * 3
    failed = records[3]
    assert failed.attempts == ()
    assert failed.outcome is not None
    assert failed.outcome.error is not None
    assert (failed.outcome.error["code"], failed.outcome.error["spent"]) == ("insufficient_funds", "0")
    assert paid(stage) == [1, 2, 3, 4, 5, 6]
    assert (await stage.until_lane(LaneState.ACTIVE)).reason == ""


async def test_rule_8_what_only_waits_for_its_own_lane_waits_at_the_head(stage: Stage) -> None:
    """Gas is paid ahead and given back: 0.5 NEAR pay for five calls with 98 Tgas at once, and for any number one
    after the other."""
    empty(stage)
    running = await stage.start()
    calls = [call(stage, f"c{n}") for n in range(12)]
    ids = await stage.submit(*calls, stage.transfer("last", 7))
    records = await stage.finals(ids, 30)
    assert all(r.outcome is not None and r.outcome.tx_hash is not None for r in records), "each was let in"
    assert paid(stage)[-1] == 7
    nonces = [r.attempts[0].nonce for r in records]
    assert nonces == sorted(nonces), "first come, first served"
    assert [len(r.attempts) for r in records] == [1] * 13, "nothing was refused by a node"
    assert metric(running.worker, "sends_total", verdict="insufficient_funds") == 0


async def test_rule_8_what_was_signed_before_the_funds_went_is_killed_and_the_lane_goes_on(stage: Stage) -> None:
    await start_rich(stage, policy=replace(POLICY, window=3))
    empty(stage)  # behind the lane's back
    [greedy] = await stage.submit(stage.transfer("greedy", 5 * NEAR))
    [record] = await stage.finals([greedy])
    assert record.status is Status.FAILED
    assert record.outcome is not None
    assert record.outcome.error is not None
    assert record.outcome.error["code"] == "insufficient_funds"
    assert [a.purpose for a in record.attempts] == [Purpose.FIRST, Purpose.NOOP]
    assert record.attempts[0].proof is not None
    await stage.done(await stage.submit(*stage.transfers(3)))
    assert paid(stage) == [1, 2, 3]


async def test_rule_8_two_lanes_of_one_account_share_its_balance_and_one_end_is_nobody_elses(stage: Stage) -> None:
    """Each lane may think that it can pay; what the account cannot pay any more ends alone."""
    empty(stage)  # 0.5 NEAR
    second = {**stage.account, **stage.account["keys"][1]}
    await stage.start(stage.account, second)
    pools = [stage.pool_of(stage.account), stage.pool_of(second)]
    half = 3 * NEAR // 10
    big = await stage.submit(*[stage.transfer(f"big{n}", half + n, pool) for n, pool in enumerate(pools)])
    small = await stage.submit(*[stage.transfer(f"s{n}", n + 1, pools[n % 2]) for n in range(6)])
    ended = await stage.finals(big)
    assert sorted(r.status.value for r in ended) == ["done", "failed"]
    [failed] = [r for r in ended if r.status is Status.FAILED]
    assert failed.outcome is not None
    assert failed.outcome.error is not None
    assert failed.outcome.error["code"] == "insufficient_funds"
    assert [r.status for r in await stage.finals(small)] == [Status.DONE] * 6


# -- a poor lane


async def test_rule_8_missing_funds_pause_the_lane_and_it_resumes_by_itself(stage: Stage) -> None:
    empty(stage)
    running = await stage.start(policy=replace(MEANS_MUCH, window=3))
    ids = await stage.submit(*[stage.transfer(f"k{n}", NEAR + n) for n in range(5)])
    lane = await stage.until_lane(LaneState.PAUSED)
    assert lane.cause is PauseCause.FUNDS
    assert int(lane.evidence["balance"]) < NEAR < int(lane.evidence["needs"])
    assert [(await stage.read(i)).status for i in ids] == [Status.QUEUED] * 5, "no intent fails, none is signed"
    fund(stage, stage.account, 10 * NEAR)
    records = await stage.done(ids)
    await stage.until_lane(LaneState.ACTIVE)
    assert paid(stage) == [NEAR + n for n in range(5)]
    assert [len(r.attempts) for r in records] == [1] * 5
    assert metric(running.worker, "balance", lane=stage.lane) > 0


async def test_rule_8_below_its_reserve_a_lane_signs_nothing_however_little_is_asked(stage: Stage) -> None:
    empty(stage)
    await stage.start(policy=replace(POLICY, reserve=NEAR))
    ids = await stage.submit(*stage.transfers(2))
    lane = await stage.until_lane(LaneState.PAUSED)
    assert (lane.cause, lane.evidence["needs"]) == (PauseCause.FUNDS, str(NEAR))
    assert [(await stage.read(i)).status for i in ids] == [Status.QUEUED] * 2
    fund(stage, stage.account, NEAR)
    await stage.done(ids)


async def test_rule_8_funds_that_go_after_signing_pause_the_lane_and_the_same_bytes_land(stage: Stage) -> None:
    await start_rich(stage, policy=replace(MEANS_MUCH, window=3))
    empty(stage)
    ids = await stage.submit(*[stage.transfer(f"k{n}", NEAR + n) for n in range(5)])
    lane = await stage.until_lane(LaneState.PAUSED)
    assert lane.cause is PauseCause.FUNDS
    assert [(await stage.read(i)).status for i in ids] == [Status.INFLIGHT] * 3 + [Status.QUEUED] * 2
    fund(stage, stage.account, 10 * NEAR)
    records = await stage.done(ids)
    assert paid(stage) == [NEAR + n for n in range(5)]
    assert [len(r.attempts) for r in records] == [1] * 5, "the same bytes, sent again"


async def test_rule_8_a_lane_paused_for_funds_resumes_under_the_next_owner(stage: Stage) -> None:
    empty(stage)
    first = await stage.start(policy=MEANS_MUCH)
    ids = await stage.submit(stage.transfer("a", NEAR))
    await stage.until_lane(LaneState.PAUSED)
    await first.crash()
    fund(stage, stage.account, 10 * NEAR)
    await stage.start(policy=MEANS_MUCH)
    await stage.done(ids)
    await stage.until_lane(LaneState.ACTIVE)
    assert paid(stage) == [NEAR]


@pytest.mark.parametrize("unsigned", [False, True])
async def test_rule_8_a_pause_of_an_older_release_ends_when_the_balance_grows(stage: Stage, unsigned: bool) -> None:
    """Release 0.1.0 stored no intent and no purse; its pause means what it meant."""
    empty(stage)
    first = await stage.start()
    [id] = await stage.submit(stage.transfer("a", 1))
    await stage.done([id])
    await first.crash()
    [waiting] = await stage.submit(stage.transfer("b", 2))
    evidence = {"message": "NotEnoughBalance", "balance": str(balance(stage)), "was": "active"}
    more = {"unsigned": True} if unsigned else {}
    await stage.ledger.set_lane(stage.lane, LaneState.PAUSED, "insufficient_funds", {**evidence, **more})
    store = stage.ledger.stores[stage.lane]  # type: ignore[attr-defined]
    store.cause = PauseCause.FUNDS  # as its reason is read
    running = await stage.start()
    if unsigned:
        await until(lambda: metric(running.worker, "balance", lane=stage.lane) > 0)
        assert (await stage.read(waiting)).status is Status.QUEUED
    fund(stage, stage.account, NEAR)
    await stage.done([waiting])


async def test_rule_8_what_expired_without_funds_is_proven_dead_and_signed_again_in_stream_order() -> None:
    with Devnet(accounts=2, keys=2, block_ms=50, validity=40) as devnet:
        await until(lambda: devnet.head("final")["height"] > 100_000_000, what="blocks are final")
        stage = Stage(devnet, MemoryLedger(), iter(devnet.told["accounts"]))
        try:
            network = replace(NETWORK, validity_blocks=40, head_max_age_s=0.2)
            await start_rich(stage, network=network, policy=MEANS_MUCH)
            empty(stage)
            ids = await stage.submit(*[stage.transfer(f"k{n}", NEAR + n) for n in range(3)])
            await stage.until_lane(LaneState.PAUSED)
            await until(lambda: metric(stage.running[0].worker, "overtaken_total", cause="expired") == 3, 20)
            assert (await stage.until_lane(LaneState.PAUSED)).cause is PauseCause.FUNDS
            fund(stage, stage.account, 10 * NEAR)
            records = await stage.done(ids)
            assert paid(stage) == [NEAR, NEAR + 1, NEAR + 2]
            for record in records:
                dead, again = record.attempts
                assert dead.proof is not None
                assert dead.proof["cause"] == "expired"
                assert again.purpose is Purpose.RESIGN
        finally:
            await stage.close()


# -- cancelling what a lane waits for


async def test_rule_8_cancelling_what_the_lane_cannot_pay_for_brings_it_back(stage: Stage) -> None:
    empty(stage)
    await stage.start(policy=MEANS_MUCH)
    culprit, *others = await stage.submit(stage.transfer("dear", NEAR), *stage.transfers(3))
    lane = await stage.until_lane(LaneState.PAUSED)
    assert lane.evidence["intent"] == str(culprit)
    assert (await stage.manager.cancel(culprit)).status is Status.CANCELLED
    await stage.done(others)
    assert (await stage.until_lane(LaneState.ACTIVE)).reason == ""
    assert paid(stage) == [1, 2, 3]


@pytest.mark.parametrize("more", [0, 3])
async def test_rule_8_cancelling_what_was_signed_and_cannot_be_paid_brings_the_lane_back(
    stage: Stage, more: int
) -> None:
    await start_rich(stage, policy=replace(MEANS_MUCH, window=1))
    empty(stage)
    culprit, *others = await stage.submit(stage.transfer("dear", NEAR), *stage.transfers(more))
    await stage.until_lane(LaneState.PAUSED)
    await stage.manager.cancel(culprit)
    [record] = await stage.finals([culprit])
    assert record.status is Status.CANCELLED
    assert [a.purpose for a in record.attempts] == [Purpose.FIRST, Purpose.NOOP]
    await stage.done(others)
    await stage.until_lane(LaneState.ACTIVE)
    assert paid(stage) == list(range(1, more + 1))


async def test_rule_8_a_no_op_that_cannot_be_paid_is_not_signed(stage: Stage) -> None:
    await start_rich(stage, policy=MEANS_MUCH)
    empty(stage, leave=4 * 10**20)  # enough for this transfer, not for another one
    [culprit] = await stage.submit(stage.transfer("dear", NEAR))
    await stage.until_lane(LaneState.PAUSED)
    await stage.manager.cancel(culprit)
    looks = metric(stage.running[0].worker, "sends_total", verdict="insufficient_funds")
    await until(lambda: metric(stage.running[0].worker, "sends_total", verdict="insufficient_funds") >= looks + 2)
    assert len((await stage.read(culprit)).attempts) == 1
    fund(stage, stage.account, NEAR // 10)
    [record] = await stage.finals([culprit])
    assert record.status is Status.CANCELLED


# -- hands


def call(stage: Stage, key: str) -> Intent:
    """A call that fails after it bought a lot of gas."""
    payload = {"contract_id": stage.receiver["account_id"], "method_name": "none", "gas": str(98 * 10**12)}
    return new_intent(key=key, pool=stage.pool_of(stage.account), kind="near.function_call", payload=payload)


def paid(stage: Stage) -> list[int]:
    return [amount for amount in stage.amounts() if amount]


async def start_rich(stage: Stage, **more: Any) -> None:
    """A worker that has seen the lane's balance, and will not look again before it has a reason to."""
    await stage.start(**more)
    await stage.done(await stage.submit(stage.transfer("warm", 0)))


def balance(stage: Stage) -> int:
    params = {"request_type": "view_account", "finality": "final", "account_id": stage.account["account_id"]}
    return int(stage.devnet.rpc("query", params)["amount"])


def empty(stage: Stage, leave: int = NEAR // 2) -> None:
    """Leave the lane's account enough for gas and storage, not for a payment of 1 NEAR."""
    account = stage.account
    second = {**account, **account["keys"][1]}
    _, sent = stage.devnet.sign(second, stage.receiver["account_id"], transfer(balance(stage) - leave))
    stage.devnet.rpc("send_tx", {"signed_tx_base64": sent, "wait_until": "FINAL"})


def fund(stage: Stage, account: dict[str, Any], amount: int) -> None:
    _, sent = stage.devnet.sign(stage.receiver, account["account_id"], transfer(amount))
    stage.devnet.rpc("send_tx", {"signed_tx_base64": sent, "wait_until": "FINAL"})
