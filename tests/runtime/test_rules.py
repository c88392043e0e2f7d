"""The nine rules of a lane worker, on a real devnet over HTTP."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import Any

import pytest

from tests.runtime.relay import Answer, Forward, RpcRelay, hash_of, refuse
from tests.runtime.stage import POLICY, Counting, Stage, lane_of, metric
from tests.waiting import until
from txmanager.chains.near import NearChain
from txmanager.core.errors import NoLane
from txmanager.core.models import Intent, Purpose
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.rpc.endpoint import Endpoint

PATIENT = replace(POLICY, include_within_ms=60_000)
"""Nothing is sent again for being slow: what a test counts is what it asked for."""


# -- 1 recover first


async def test_rule_1_recovery_looks_up_first_then_sends_the_same_bytes_in_nonce_order(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"])
    first = await stage.start()
    ids = await stage.submit(*stage.transfers(5))
    await until(lambda: metric(first.worker, "sends_total") >= 5, what="all five were sent, and dropped")
    await first.crash()
    signed = [(await stage.read(i)).attempts for i in ids]
    stage.devnet.clear_faults()

    async with RpcRelay(stage.devnet.url) as relay:
        await stage.start(url=relay.url)
        records = await stage.done(ids)
        methods = [method for method, _ in relay.calls]
        before = methods[: methods.index("broadcast_tx_async")]
        assert "query" in before, "it looked before it sent"
        assert relay.sent("broadcast_tx_async")[:5] == [a.hash for [a] in signed]
    assert [[a.hash for a in r.attempts] for r in records] == [[a.hash] for [a] in signed], "nothing was signed again"
    assert stage.amounts() == [1, 2, 3, 4, 5]


async def test_rule_1_recovery_settles_what_landed_while_nobody_watched_and_sends_nothing(stage: Stage) -> None:
    first = await stage.start(policy=replace(POLICY, window=8))
    ids = await stage.submit(*stage.transfers(8))
    await until(lambda: len(stage.amounts()) == 8, what="all landed")
    await first.crash()
    async with RpcRelay(stage.devnet.url) as relay:
        await stage.start(url=relay.url)
        await stage.done(ids)
        assert relay.sent() == []
    assert stage.amounts() == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_rule_1_a_stuck_old_attempt_does_not_stop_new_ones(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"], count=1)
    await stage.start(policy=PATIENT)
    [old] = await stage.submit(stage.transfer("old", 1))
    await stage.until_status(old, Status.INFLIGHT)
    ids = await stage.submit(*stage.transfers(5, first=2))
    await stage.done([*ids, old])
    assert stage.amounts() == [2, 3, 4, 5, 6, 1]


# -- 2 take, sign, write ahead, broadcast, track, settle


async def test_rule_2_no_byte_is_sent_before_it_is_written_ahead(stage: Stage) -> None:
    unrecorded: list[str] = []
    known: set[str] = set()

    async def check(request: dict[str, Any], forward: Forward) -> Answer:
        lane = stage.ledger.stores[stage.lane]  # type: ignore[attr-defined]
        known.update(a.hash for record in lane.records.values() for a in record.attempts)
        unrecorded.extend(sent for sent in map(hash_of, request["params"]) if sent not in known)
        return await forward()

    async with RpcRelay(stage.devnet.url, {"broadcast_tx_async": check}) as relay:
        await stage.start(url=relay.url)
        await stage.done(await stage.submit(*stage.transfers(40)))
        assert len(relay.sent("broadcast_tx_async")) >= 40
    assert unrecorded == []


async def test_rule_2_behind_a_balancer_the_next_nonce_leaves_only_after_the_answer(stage: Stage) -> None:
    open_sends, most = 0, 0

    async def slow(_: dict[str, Any], forward: Forward) -> Answer:
        nonlocal open_sends, most
        open_sends += 1
        most = max(most, open_sends)
        await asyncio.sleep(0.005)
        answer = await forward()
        open_sends -= 1
        return answer

    async with RpcRelay(stage.devnet.url, {"broadcast_tx_async": slow}) as relay:
        await stage.start(url=[Endpoint(relay.url)], policy=PATIENT)
        records = await stage.done(await stage.submit(*stage.transfers(30)))
        assert relay.sent("broadcast_tx_async") == [r.attempts[0].hash for r in records]
    assert most == 1
    assert stage.amounts() == list(range(1, 31))


async def test_rule_2_a_slow_look_up_does_not_delay_sends(stage: Stage) -> None:
    gate = asyncio.Event()

    async def stuck(_: dict[str, Any], forward: Forward) -> Answer:
        await gate.wait()
        return await forward()

    async with RpcRelay(stage.devnet.url, {"EXPERIMENTAL_tx_status": stuck}) as relay:
        await stage.start(url=relay.url, policy=replace(POLICY, window=4))
        await stage.submit(*stage.transfers(4))
        await until(lambda: len(stage.amounts()) == 4, what="all four landed although no look-up was answered")
        gate.set()
        await stage.done([(await stage.read(f"k{n}")).id for n in range(1, 5)])


async def test_rule_2_an_intent_is_settled_only_at_finality(stage: Stage) -> None:
    final = asyncio.Event()

    async def not_final_yet(_: dict[str, Any], forward: Forward) -> Answer:
        answer = await forward()
        if "result" in answer.body and not final.is_set():
            answer.body["result"]["final_execution_status"] = "EXECUTED"
        return answer

    async with RpcRelay(stage.devnet.url, {"EXPERIMENTAL_tx_status": not_final_yet}) as relay:
        await stage.start(url=relay.url)
        [id] = await stage.submit(stage.transfer("a", 7))
        await until(lambda: sum(m == "EXPERIMENTAL_tx_status" for m, _ in relay.calls) >= 5, what="it was looked up")
        assert (await stage.read(id)).status is Status.INFLIGHT
        final.set()
        await stage.done([id])


async def test_rule_2_settling_and_writing_ahead_are_batched(stage: Stage) -> None:
    counting = Counting(stage.ledger)
    await stage.start(ledger=counting, policy=replace(POLICY, window=64))
    await stage.done(await stage.submit(*stage.transfers(64)))
    assert counting.counts["record_attempts"] <= 16
    assert counting.counts["settle"] <= 32


# -- 3 the cursor


async def test_rule_3_nonces_come_from_the_ledger_even_where_the_chain_lags(stage: Stage) -> None:
    first = await stage.start()
    before = await stage.done(await stage.submit(*stage.transfers(3)))
    await first.stop()
    stage.devnet.fault("lag", blocks=30)
    await stage.start()
    ids = await stage.submit(*stage.transfers(3, first=4))
    await until(lambda: len(stage.amounts()) == 6, what="all landed, seen or not")
    stage.devnet.clear_faults()
    after = await stage.done(ids)
    nonces = [a.nonce for r in (*before, *after) for a in r.attempts]
    assert nonces == list(range(nonces[0], nonces[0] + 6))


async def test_rule_3_a_chain_nonce_beyond_the_cursor_quarantines_at_take_over(stage: Stage) -> None:
    first = await stage.start()
    await stage.done(await stage.submit(*stage.transfers(2)))
    await first.stop()
    names = {"account_id": stage.account["account_id"], "public_key": stage.account["public_key"]}
    used = stage.devnet.nonce(stage.account)
    stage.devnet.admin("/foreign", {**names, "by": 5})
    await until(lambda: stage.devnet.nonce(stage.account, "final") > used, what="the foreign use is final")
    await stage.start()
    lane = await stage.until_lane(LaneState.QUARANTINED)
    assert lane.reason == "foreign_nonce_use"
    assert int(lane.evidence["chain_nonce"]) > int(lane.evidence["landed"])
    assert "rebaseline" in lane.evidence["resolve"]
    with pytest.raises(NoLane):
        await stage.submit(stage.transfer("later"))


async def test_rule_3_a_final_nonce_below_the_cursor_that_nobody_recorded_is_lost_data(stage: Stage) -> None:
    first = await stage.start()
    await stage.done(await stage.submit(*stage.transfers(2)))
    await first.stop()
    assert isinstance(stage.ledger, MemoryLedger)
    store = stage.ledger.stores[stage.lane]
    assert store.cursor is not None
    store.cursor += 10  # as if attempts had been recorded and their records lost
    names = {"account_id": stage.account["account_id"], "public_key": stage.account["public_key"]}
    used = stage.devnet.nonce(stage.account)
    stage.devnet.admin("/foreign", {**names, "by": 3})
    await until(lambda: stage.devnet.nonce(stage.account, "final") > used, what="the use is final")
    await stage.start()
    assert (await stage.until_lane(LaneState.QUARANTINED)).reason == "foreign_nonce_use"


# -- 4 the window


async def test_rule_4_no_more_than_a_window_is_unincluded(stage: Stage) -> None:
    await stage.start(policy=replace(POLICY, window=4, include_within_ms=60_000))
    stage.devnet.fault("stall")
    ids = await stage.submit(*stage.transfers(12))
    await stage.until_status(ids[3], Status.INFLIGHT)
    records = [await stage.read(i) for i in ids]
    assert [r.status for r in records] == [Status.INFLIGHT] * 4 + [Status.QUEUED] * 8
    stage.devnet.clear_faults()
    await stage.done(ids)
    assert stage.amounts() == list(range(1, 13))


async def test_rule_4_inclusion_frees_a_slot_and_max_inflight_bounds_the_rest(stage: Stage) -> None:
    final = asyncio.Event()

    async def not_final_yet(_: dict[str, Any], forward: Forward) -> Answer:
        answer = await forward()
        if "result" in answer.body and not final.is_set():
            answer.body["result"]["final_execution_status"] = "EXECUTED"
        return answer

    async with RpcRelay(stage.devnet.url, {"EXPERIMENTAL_tx_status": not_final_yet}) as relay:
        await stage.start(url=relay.url, policy=replace(POLICY, window=2, max_inflight=6))
        ids = await stage.submit(*stage.transfers(10))
        await stage.until_status(ids[5], Status.INFLIGHT)
        await until(lambda: len(stage.amounts()) == 6, what="six are included")
        assert [(await stage.read(i)).status for i in ids[6:]] == [Status.QUEUED] * 4
        final.set()
        await stage.done(ids)


async def test_rule_4_window_1_executes_strictly_one_after_the_other(stage: Stage) -> None:
    await stage.start(policy=replace(POLICY, window=1))
    ids = await stage.submit(*stage.transfers(4))
    await stage.done(ids)
    events = [(e.intent.key, e.status) for e in await stage.ledger.events(stage.lane) if e.status is not Status.QUEUED]
    assert events == [(f"k{n}", s) for n in range(1, 5) for s in (Status.INFLIGHT, Status.DONE)]


async def test_rule_4_a_hold_frees_its_slot_in_a_window(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"])
    await stage.start(policy=replace(POLICY, window=2, include_within_ms=300, hold_after_ms=1200))
    ids = await stage.submit(*stage.transfers(2))
    for id in ids:
        held = await stage.until_status(id, Status.HELD)
        assert held.hold is not None
        assert held.hold["reason"] == "no_proof"
    stage.devnet.clear_faults()
    later = await stage.submit(*stage.transfers(4, first=3))
    await stage.done(later)


async def test_rule_4_a_hold_in_window_1_pauses_the_lane_by_name_until_it_ends(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"])
    await stage.start(policy=replace(POLICY, window=1, include_within_ms=300, hold_after_ms=1200))
    [stuck, next_one] = await stage.submit(*stage.transfers(2))
    lane = await stage.until_lane(LaneState.PAUSED)
    assert "k1" in lane.reason
    assert (await stage.read(next_one)).status is Status.QUEUED
    stage.devnet.clear_faults()
    await stage.done([stuck, next_one])
    assert stage.amounts() == [1, 2]
    await stage.until_lane(LaneState.ACTIVE)


# -- 5 unknown is not failed


async def test_rule_5_a_time_out_after_the_node_accepted_is_looked_up_and_never_signed_again(stage: Stage) -> None:
    stage.devnet.fault("timeout", method="broadcast_tx_async", ms=50, count=3)
    await stage.start()
    records = await stage.done(await stage.submit(*stage.transfers(6)))
    assert [len(r.attempts) for r in records] == [1] * 6
    assert stage.amounts() == [1, 2, 3, 4, 5, 6]


async def test_rule_5_a_connection_lost_after_the_send_pays_once(stage: Stage) -> None:
    stage.devnet.fault("disconnect", method="broadcast_tx_async", probability=0.4, count=6)
    await stage.start()
    records = await stage.done(await stage.submit(*stage.transfers(10)))
    assert [len(r.attempts) for r in records] == [1] * 10
    assert stage.amounts() == list(range(1, 11))


async def test_rule_5_the_first_send_that_is_not_taken_stops_all_higher_nonces(stage: Stage) -> None:
    refused = 0
    second: str | None = None

    async def busy(request: dict[str, Any], forward: Forward) -> Answer:
        nonlocal refused, second
        [sent] = request["params"]
        if len(relay.sent("broadcast_tx_async")) == 2:
            second = sent
        if sent == second and refused < 3:
            refused += 1
            return Answer(429, None)
        return await forward()

    async with RpcRelay(stage.devnet.url, {"broadcast_tx_async": busy}) as relay:
        await stage.start(url=[Endpoint(relay.url)], policy=PATIENT)
        records = await stage.done(await stage.submit(*stage.transfers(6)))
        sent = relay.sent("broadcast_tx_async")
        order = [r.attempts[0].hash for r in records]
        assert sent == [order[0], *[order[1]] * 4, *order[2:]]
    assert refused == 3


# -- 6 sign again only what is provably dead


async def test_rule_6_an_overtaken_attempt_is_proven_dead_and_signed_again_once(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"], count=1)
    running = await stage.start()
    records = await stage.done(await stage.submit(*stage.transfers(6)))
    assert [len(r.attempts) for r in records] == [2, 1, 1, 1, 1, 1]
    dead, again = records[0].attempts
    assert dead.proof is not None
    assert dead.proof["cause"] == "overtaken"
    assert int(dead.proof["final_nonce"]) >= dead.nonce
    assert again.purpose is Purpose.RESIGN
    assert again.nonce > max(r.attempts[0].nonce for r in records), "it overtakes nobody"
    assert records[0].resigns == 0, "a death by overtaking does not count"
    assert sorted(stage.amounts()) == [1, 2, 3, 4, 5, 6]
    assert metric(running.worker, "resigns_total") == 1


async def test_rule_6_nothing_newer_follows_a_re_sign_until_it_is_included(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"], count=1)
    async with RpcRelay(stage.devnet.url) as relay:
        await stage.start(url=relay.url, policy=replace(POLICY, window=4))
        ids = await stage.submit(*stage.transfers(4))
        await until(lambda: metric(stage.running[0].worker, "overtaken_total") == 1, what="the first is proven dead")
        ids += await stage.submit(*stage.transfers(8, first=5))
        records = await stage.done(ids)
        resign = records[0].attempts[1]
        included = next(t for t in stage.landed() if t.hash == resign.hash)
        newer = [t for t in stage.landed() if t.nonce > resign.nonce]
        assert newer
        assert stage.landed().index(included) < min(stage.landed().index(t) for t in newer)
        sent = relay.sent("broadcast_tx_async")
        after = {r.attempts[0].hash for r in records if r.attempts[0].nonce > resign.nonce}
        assert sent.index(resign.hash) < min(sent.index(s) for s in after)


async def test_rule_6_many_dropped_in_a_row_each_land_once(stage: Stage) -> None:
    await stage.start(policy=replace(POLICY, window=8))
    stage.devnet.fault("drop", signer_id=stage.account["account_id"], probability=0.3, count=12)
    records = await stage.done(await stage.submit(*stage.transfers(30)), timeout=60)
    assert sorted(stage.amounts()) == list(range(1, 31))
    for record in records:
        assert all(a.dead for a in record.attempts[:-1]), "every earlier attempt has its proof"


# -- 7 rejections


async def test_rule_7_what_the_bytes_decide_fails_alone_before_anything_is_signed(stage: Stage) -> None:
    await stage.start()
    bad = replace(stage.transfer("bad"), payload={"receiver_id": "NOT AN ACCOUNT", "amount": "1"})
    ids = await stage.submit(stage.transfer("a", 1), bad, stage.transfer("b", 2))
    records = await stage.finals(ids)
    assert [r.status for r in records] == [Status.DONE, Status.FAILED, Status.DONE]
    failed = records[1]
    assert failed.attempts == ()
    assert failed.outcome is not None
    assert failed.outcome.error is not None
    assert "receiver_id" in failed.outcome.error["message"]
    assert failed.outcome.error["spent"] == "0"
    nonces = [records[0].attempts[0].nonce, records[2].attempts[0].nonce]
    assert nonces[1] == nonces[0] + 1, "no nonce was spent on it"


async def test_rule_7_one_failing_intent_in_the_middle_of_100_leaves_99_in_order(stage: Stage) -> None:
    await stage.start(policy=replace(POLICY, window=32))
    intents = stage.transfers(100)
    intents[50] = replace(intents[50], payload={"receiver_id": "bob.near", "amount": "minus one"})
    records = await stage.finals(await stage.submit(*intents), timeout=40)
    assert [r.status for r in records] == [Status.DONE] * 50 + [Status.FAILED] + [Status.DONE] * 49
    assert stage.amounts() == [n for n in range(1, 101) if n != 51]


async def test_rule_7_a_payload_that_breaks_the_adapter_fails_alone(stage: Stage) -> None:
    class Fragile(NearChain):
        async def prepare(self, lane: str, intents: Any) -> Any:
            if any(i.payload.get("amount") == "13" for i in intents):
                raise RuntimeError("a bug in the adapter")
            return await super().prepare(lane, intents)

    await stage.start(kind=Fragile)
    records = await stage.finals(await stage.submit(*stage.transfers(20)))
    assert [n for n, r in enumerate(records, 1) if r.status is not Status.DONE] == [13]
    assert records[12].outcome is not None
    assert records[12].outcome.error is not None
    assert records[12].outcome.error["code"] == "unprocessable"
    assert stage.amounts() == [n for n in range(1, 21) if n != 13]


def rejecting(amount: int) -> dict[str, Any]:
    """A node that swallows this payment, and says that it can never be taken."""
    marked: set[str] = set()

    def is_marked(sent: str) -> bool:
        if amount.to_bytes(16, "little") in base64.b64decode(sent):
            marked.add(sent)
        return sent in marked

    async def swallow(request: dict[str, Any], forward: Forward) -> Answer:
        [sent] = request["params"]
        answer = await forward() if not is_marked(sent) else None
        return answer or Answer(200, {"result": hash_of(sent)})

    async def say_why(request: dict[str, Any], forward: Forward) -> Answer:
        if is_marked(request["params"]["signed_tx_base64"]):
            return refuse("InvalidSignature")
        return await forward()

    return {"broadcast_tx_async": swallow, "send_tx": say_why}


async def test_rule_7_a_late_rejection_on_an_idle_lane_is_killed_by_a_recorded_no_op(stage: Stage) -> None:
    async with RpcRelay(stage.devnet.url, rejecting(777_777)) as relay:
        await stage.start(url=relay.url)
        [id] = await stage.submit(stage.transfer("doomed", 777_777))
        [record] = await stage.finals([id])
    assert record.status is Status.FAILED
    assert record.outcome is not None
    assert record.outcome.error is not None
    assert record.outcome.error["code"] == "rejected"
    assert "InvalidSignature" in record.outcome.error["message"]
    effect, noop = record.attempts
    assert noop.purpose is Purpose.NOOP
    assert effect.dead
    assert [(t.nonce, t.amount) for t in stage.landed()] == [(noop.nonce, 0)]


async def test_rule_7_a_late_rejection_on_a_busy_lane_is_killed_by_the_next_that_lands(stage: Stage) -> None:
    async with RpcRelay(stage.devnet.url, rejecting(777_777)) as relay:
        await stage.start(url=relay.url, policy=replace(POLICY, window=4))
        intents: list[Intent] = [stage.transfer("doomed", 777_777), *stage.transfers(40)]
        records = await stage.finals(await stage.submit(*intents))
    assert [r.status for r in records] == [Status.FAILED] + [Status.DONE] * 40
    assert stage.amounts() == list(range(1, 41))
    spent = [a.nonce for r in records for a in r.attempts]
    assert len(set(spent)) == len(spent), "no nonce is handed to another intent"


async def test_rule_7_recovery_sends_a_recorded_no_op_and_no_longer_what_it_kills(stage: Stage) -> None:
    bend = rejecting(777_777)
    async with RpcRelay(stage.devnet.url, bend) as relay:
        first = await stage.start(url=relay.url)
        stage.devnet.fault("stall")
        [id] = await stage.submit(stage.transfer("doomed", 777_777))
        await until(lambda: noop_recorded(stage), what="the no-op is recorded")
        await first.crash()
    effect, noop = (await stage.read(id)).attempts
    async with RpcRelay(stage.devnet.url) as relay:
        await stage.start(url=relay.url)
        await until(lambda: relay.sent("broadcast_tx_async"), what="recovery sent something")
        stage.devnet.clear_faults()
        [record] = await stage.finals([id])
        assert effect.hash not in relay.sent()
        assert noop.hash in relay.sent()
    assert record.status is Status.FAILED
    assert stage.amounts() == []


def noop_recorded(stage: Stage) -> bool:
    store = stage.ledger.stores[stage.lane]  # type: ignore[attr-defined]
    return any(a.purpose is Purpose.NOOP for r in store.records.values() for a in r.attempts)


# -- 8 funds: test_funds.py


# -- 9 versions


async def test_rule_9_a_worker_that_does_not_know_a_version_leaves_the_lane_to_one_that_does(stage: Stage) -> None:
    class Old(NearChain):
        def serves(self, intent: Intent) -> bool:
            return intent.version < 2

    class New(NearChain):
        def serves(self, intent: Intent) -> bool:
            return intent.version <= 2

    old = await stage.start(kind=Old)
    ids = await stage.submit(stage.transfer("v1", 1), replace(stage.transfer("v2", 2), version=2))
    await stage.done(ids[:1])
    await until(lambda: old.owned == [], what="the old release lets go")
    assert (await stage.read(ids[1])).status is Status.QUEUED, "it never fails the intent"
    new = await stage.start(kind=New, own=False)
    await stage.done(ids)
    assert new.owned == [lane_of(stage.account)]
    assert stage.amounts() == [1, 2]
