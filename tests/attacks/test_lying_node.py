"""One node of two lies: nothing is settled wrongly, nothing is paid twice, and no lane is stopped by the liar alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.attacks.liar import Liar, Lie, liar
from tests.conftest import HasUrl
from tests.evm.machines import Anvil
from tests.evm.stage import POLICY as EVM_POLICY
from tests.evm.stage import REVERTS, new_signer
from tests.evm.stage import Stage as EvmStage
from tests.runtime.stage import POLICY, Running, Stage, metric
from tests.waiting import until
from txmanager.core.decide import Policy
from txmanager.core.ledger import Ledger
from txmanager.core.models import new_intent
from txmanager.core.states import LaneState, Status
from txmanager.ledger.redis import RedisLedger
from txmanager.rpc.endpoint import Endpoint

UNKNOWN = {"error": {"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_TRANSACTION"}, "message": "unknown"}}
FAILED = {"Failure": {"ActionError": {"index": 0, "kind": {"AccountDoesNotExist": {"account_id": "nobody.near"}}}}}


async def _has_nonce(ledger: Ledger, lane: str) -> bool:
    view = await ledger.lane(lane)
    return view is not None and view.cursor is not None


# -- NEAR: a devnet's first node behind the liar, its second one as it is


@asynccontextmanager
async def near(stage: Stage, lie: Lie, policy: Policy = POLICY) -> AsyncIterator[tuple[Liar, Liar, Running]]:
    nodes = stage.devnet.told["nodes"]
    async with liar(nodes[0]) as first, liar(nodes[1]) as second:
        first.lie = lie
        endpoints = [Endpoint(node.url, direct=True, timeout_s=2.0) for node in (first, second)]
        running = await stage.start(url=endpoints, policy=policy)
        await until(lambda: _has_nonce(stage.ledger, stage.lane), what="both nodes told the lane's first nonce")
        yield first, second, running
        await running.crash()


def near_flip(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """A success is told as a failure, for amounts below a thousand."""
    if method == "EXPERIMENTAL_tx_status" and "result" in answer:
        [action] = answer["result"]["transaction"]["actions"]
        if int(action.get("Transfer", {}).get("deposit", "0")) < 1_000:
            for outcome in answer["result"]["receipts_outcome"]:
                outcome["outcome"]["status"] = FAILED
    return answer


async def test_a_node_that_flips_a_status_makes_nobody_pay_twice(redis_lanes: Stage) -> None:
    stage = redis_lanes
    async with near(stage, near_flip) as (first, _, running):
        await stage.submit(stage.transfer("lied-about", 7), stage.transfer("beside-it", 5_000))
        [beside] = await stage.done([stage.transfer("beside-it").id])
        held = await stage.until_status("lied-about", Status.HELD)
        assert held.hold is not None
        assert first.told > 0
        assert beside.status is Status.DONE
        assert held.hold["reason"] == "nodes_disagree"
        answers = [a["status"] for a in held.hold["evidence"]["nodes"].values() if "status" in a]
        assert {"failed", "done"} == set(answers), "both answers are kept"
        assert metric(running.worker, "disagreements_total") >= 1
        # The caller asks again under the same key, as callers do, and nothing is paid again.
        await stage.submit(stage.transfer("lied-about", 7))
        first.lie = lambda method, params, answer: answer
        await stage.done([stage.transfer("lied-about").id])
    await until(lambda: stage.amounts() == [7, 5_000], what="each was paid once")


async def test_a_failure_waits_for_the_second_node_and_says_so(redis_lanes: Stage) -> None:
    stage = redis_lanes
    payload = {"receiver_id": "nobody.near", "amount": "1"}
    lost = new_intent(key="lost", pool="p", kind="near.transfer", payload=payload)
    async with near(stage, lambda method, params, answer: answer) as (_, second, running):
        second.leave()
        await stage.submit(lost, stage.transfer("fine", 3))
        await stage.done([stage.transfer("fine").id])
        await until(lambda: metric(running.worker, "unconfirmed") == 1, what="the wait is visible")
        assert (await stage.read("lost")).status is Status.INFLIGHT
        second.come_back()
        [record] = await stage.finals([lost.id])
        assert record.status is Status.FAILED
        await until(lambda: metric(running.worker, "unconfirmed") == 0, what="the wait is over")


async def test_what_no_second_node_confirms_in_time_is_held_with_what_was_said(redis_lanes: Stage) -> None:
    stage = redis_lanes
    payload = {"receiver_id": "nobody.near", "amount": "1"}
    lost = new_intent(key="lost", pool="p", kind="near.transfer", payload=payload)
    async with near(stage, lambda m, p, a: a, replace(POLICY, hold_after_ms=2_000)) as (_, second, _running):
        second.leave()
        await stage.submit(lost)
        held = await stage.until_status("lost", Status.HELD)
        assert held.hold is not None
        assert held.hold["reason"] == "not_confirmed"
        nodes = held.hold["evidence"]["nodes"]
        assert any("no answer" in str(answer) for answer in nodes.values())
        assert any(isinstance(answer, dict) and answer.get("status") == "failed" for answer in nodes.values())
        second.come_back()
        [record] = await stage.finals([lost.id])
        assert record.status is Status.FAILED


async def test_a_node_that_buries_what_landed_gets_nothing_signed_again(redis_lanes: Stage) -> None:
    """It denies the transaction and every chunk that holds it; its nonce, which is used, completes the "proof"."""
    stage = redis_lanes

    def buries(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
        if method in ("tx", "EXPERIMENTAL_tx_status"):
            return UNKNOWN
        if method == "chunk" and "result" in answer:
            answer["result"]["transactions"] = []
            answer["result"]["header"]["tx_root"] = "1" * 32
        if method == "block" and "result" in answer:
            for header in answer["result"]["chunks"]:
                header["tx_root"] = "1" * 32
        if method == "send_tx":
            data = {"TxExecutionError": {"InvalidTxError": {"InvalidNonce": {"tx_nonce": 1, "ak_nonce": 2}}}}
            return {"error": {"name": "HANDLER_ERROR", "cause": {"name": "INVALID_TRANSACTION"}, "data": data}}
        return answer

    async with near(stage, buries) as (first, _, running):
        await stage.submit(stage.transfer("buried", 9))
        await until(lambda: stage.amounts() == [9], what="it is paid")
        await until(lambda: metric(running.worker, "unconfirmed") == 1, 20, what="one node calls it dead")
        record = await stage.read("buried")
        assert record.status is Status.INFLIGHT
        assert [a.proof for a in record.attempts] == [None]
        first.lie = lambda method, params, answer: answer
        await stage.done([record.id])
    assert stage.amounts() == [9]


@pytest.mark.parametrize("lie", ["nonce", "missing"])
async def test_a_node_that_lies_about_the_key_quarantines_no_lane(redis_lanes: Stage, lie: str) -> None:
    stage = redis_lanes

    def about_the_key(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
        if method == "query" and params.get("request_type") == "view_access_key" and "result" in answer:
            if lie == "missing":
                return {"error": {"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_ACCESS_KEY"}, "code": -32000}}
            answer["result"]["nonce"] += 1_000_000
        return answer

    async with near(stage, lambda m, p, a: a) as (first, honest_one, running):
        await stage.submit(stage.transfer("before", 1))
        await stage.done([stage.transfer("before").id])
        await running.crash()
        first.lie = about_the_key
        endpoints = [Endpoint(node.url, direct=True, timeout_s=2.0) for node in (first, honest_one)]
        second = await stage.start(url=endpoints)  # a new owner compares the lane with the chain
        await stage.submit(stage.transfer("after", 2))
        await stage.done([stage.transfer("after").id])
        lane = await stage.ledger.lane(stage.lane)
        assert lane is not None
        assert lane.state is LaneState.ACTIVE
        if lie == "nonce":
            assert metric(second.worker, "disagreements_total", about="foreign_nonce_use") >= 1
        await second.crash()


# -- EVM: anvil behind the liar, and anvil


@pytest.fixture(scope="module")
def machine() -> Iterator[Anvil]:
    with Anvil() as running:
        yield running


@asynccontextmanager
async def evm(
    machine: Anvil, redis7: HasUrl, prefix: str, lie: Lie, policy: Policy = EVM_POLICY
) -> AsyncIterator[tuple[EvmStage, Liar, Liar]]:
    async with liar(machine.url) as first, liar(machine.url) as second:
        first.lie = lie
        ledger = RedisLedger(redis7.url, prefix=prefix)
        stage = EvmStage(machine, [new_signer()], [first.url, second.url], ledger=ledger, policy=policy)
        async with stage:
            await until(lambda: _has_nonce(ledger, stage.lane_id), what="both nodes told the lane's first nonce")
            yield stage, first, second
        await ledger.close()


def evm_flip(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
    if method == "eth_getTransactionReceipt" and answer.get("result"):
        answer["result"]["status"] = "0x0"
    return answer


async def test_a_node_that_flips_a_receipt_makes_nobody_pay_twice(machine: Anvil, redis7: HasUrl, prefix: str) -> None:
    async with evm(machine, redis7, prefix, evm_flip) as (stage, first, _):
        await stage.submit(stage.transfer("k", 11))
        held = await stage.until_status("k", Status.HELD)
        assert held.hold is not None
        assert first.told > 0
        assert held.hold["reason"] == "nodes_disagree"
        answers = {a["status"] for a in held.hold["evidence"]["nodes"].values() if "status" in a}
        assert answers == {"failed", "done"}
        first.lie = lambda method, params, answer: answer
        await stage.until_done("k")
        await stage.submit(stage.transfer("next", 1))
        await stage.until_done("next")
        assert stage.received() == 12


async def test_a_revert_on_chain_waits_for_the_second_node(machine: Anvil, redis7: HasUrl, prefix: str) -> None:
    payload = {"data": REVERTS, "gas": 100_000, "simulate": False}
    async with evm(machine, redis7, prefix, lambda m, p, a: a) as (stage, _, second):
        second.leave()
        await stage.submit(stage.intent("bad", "evm.transaction", payload), stage.transfer("fine"))
        await stage.until_done("fine")
        assert (await stage.record("bad")).status is Status.INFLIGHT
        worker = stage.worker
        assert worker is not None
        await until(lambda: metric(worker, "unconfirmed") == 1, what="the wait is visible")
        second.come_back()
        record = await stage.until_status("bad", Status.FAILED, Status.DONE)
        assert record.outcome is not None
        assert record.outcome.error is not None
        assert record.outcome.error["code"] == "reverted"


def _revert(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
    if method in ("eth_estimateGas", "eth_call"):
        return {"error": {"code": 3, "message": "execution reverted: because I say so"}}
    return answer


def _impossible(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
    if method == "eth_sendRawTransaction":
        return {"error": {"code": -32000, "message": "intrinsic gas too low"}}
    return answer


def _poor(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
    if method == "eth_sendRawTransaction":
        return {"error": {"code": -32000, "message": "insufficient funds for gas * price + value"}}
    return answer


def _ahead(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
    if method == "eth_getTransactionCount":
        return {"result": hex(int(answer["result"], 16) + 1_000)}
    return answer


def _behind(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
    return {"result": "0x0"} if method == "eth_getTransactionCount" else answer


def _buries(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
    if method == "eth_sendRawTransaction":
        return {"error": {"code": -32000, "message": "nonce too low"}}
    return {"result": None} if method == "eth_getTransactionReceipt" else _ahead(method, params, answer)


@pytest.mark.parametrize("lie", [_revert, _impossible, _poor, _ahead, _behind, _buries])
async def test_no_lie_of_one_node_ends_an_intent_or_stops_a_lane(
    machine: Anvil, redis7: HasUrl, prefix: str, lie: Lie, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txmanager.chains.agreement.UNSEEN_S", 0.5)
    async with evm(machine, redis7, prefix, lambda m, p, a: a) as (stage, first, _):
        await stage.submit(stage.transfer("before", 1))
        await stage.until_done("before")
        first.lie = lie
        await stage.submit(stage.transfer("k", 2))
        [record] = await stage.until_done("k")
        assert [a.proof for a in record.attempts] == [None] * len(record.attempts)
        await stage.crash()
        await stage.start()  # a new owner compares the lane with the chain
        await stage.submit(stage.transfer("after", 4))
        await stage.until_done("after")
        assert first.told > 0
        assert (await stage.lane()).state is LaneState.ACTIVE
        assert stage.received() == 7
