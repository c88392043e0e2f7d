"""Answers that say little: too large, timed out, included without an outcome, errors nobody has heard of."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.near.world import ALICE, BOB, NearWorld, intent, transfer
from txmanager.chains.near.judge import judge
from txmanager.chains.near.limits import MAX_TRANSACTION_BYTES, most_over_http
from txmanager.chains.near.reading import PoolRules, read
from txmanager.chains.near.verdicts import classify
from txmanager.core.chain import Impossible, Verdict
from txmanager.core.errors import InvalidInput
from txmanager.core.states import Status
from txmanager.rpc import ConnectionFailed, RpcError
from txmanager.rpc.endpoint import MAX_REQUEST_BYTES
from txmanager.rpc.errors import TooLarge

RECORDED = Path(__file__).parent.parent / "devnet" / "answers.jsonl"


def refusing(world: NearWorld, number: int, failure: Exception | None):
    honest = world.node(number, f"node{number}")

    async def handle(method: str, params: Any) -> Any:
        if failure is not None and method in ("broadcast_tx_async", "send_tx"):
            raise failure
        return await honest(method, params)

    return handle, True, False


LARGE, GONE = TooLarge("HTTP 413"), ConnectionFailed("gone")


@pytest.mark.parametrize(
    ("nodes", "verdict"),
    [
        ((LARGE,), Verdict.PERMANENT),
        ((LARGE, LARGE), Verdict.PERMANENT),
        ((LARGE, LARGE, LARGE), Verdict.PERMANENT),
        ((LARGE, None), Verdict.ACCEPTED),
        ((LARGE, LARGE, None), Verdict.ACCEPTED),
        ((LARGE, GONE), Verdict.UNKNOWN),
        ((LARGE, LARGE, GONE), Verdict.UNKNOWN),
    ],
)
@pytest.mark.parametrize("way", ["broadcast", "probe"])
async def test_too_large_is_permanent_when_every_endpoint_says_so(nodes, verdict, way):
    world = NearWorld()
    _, [attempt] = await world.signed()
    world.see(*(refusing(world, 0, failure) for failure in nodes))
    if way == "broadcast":
        [reply] = await world.chain.broadcast(world.lane, [attempt])
    else:
        reply = await world.chain.probe(world.lane, attempt)
    assert reply.verdict is verdict


def test_what_a_request_can_carry_is_less_than_what_the_protocol_takes():
    limit = most_over_http(MAX_REQUEST_BYTES)
    assert limit < MAX_TRANSACTION_BYTES
    body = {"jsonrpc": "2.0", "id": 2**63, "method": "broadcast_tx_async", "params": []}
    validating = {"signed_tx_base64": base64.b64encode(bytes(limit)).decode(), "wait_until": "EXECUTED_OPTIMISTIC"}
    assert len(json.dumps({**body, "params": validating})) <= MAX_REQUEST_BYTES
    assert most_over_http(10 * MAX_REQUEST_BYTES) == MAX_TRANSACTION_BYTES
    assert most_over_http(0) == 0


async def test_an_intent_above_the_endpoints_limit_is_refused_at_acceptance_and_before_signing():
    most = most_over_http(10_000)
    args = base64.b64encode(bytes(8_000)).decode()
    payload = {"contract_id": BOB.account_id, "method_name": "m", "args_base64": args}
    with pytest.raises(InvalidInput, match=f"the limit is {most}"):
        read("near.function_call", payload, PoolRules(ALICE.account_id, max_bytes=most))
    read("near.function_call", payload, PoolRules(ALICE.account_id))
    world = NearWorld()
    world.chain.settings = replace(world.chain.settings, max_transaction_bytes=most)
    [refused] = await world.chain.prepare(world.lane, [intent("k", "near.function_call", payload)])
    assert isinstance(refused, Impossible)
    assert not refused.by_node


def timeout(cause: Any) -> RpcError:
    info = {} if cause is None else {"cause": cause}
    told = {
        "name": "HANDLER_ERROR",
        "cause": {"name": "TIMEOUT_ERROR", "info": info},
        "code": -32000,
        "data": "Timeout",
    }
    return RpcError(told, 408)


@pytest.mark.parametrize(
    ("cause", "waited", "shown"),
    [
        (None, Verdict.ACCEPTED, "TIMEOUT_ERROR: Timeout"),
        ("NOT_OBSERVED", Verdict.ACCEPTED, "NOT_OBSERVED"),
        ({"PENDING": {"status": "INCLUDED"}}, Verdict.ACCEPTED, "INCLUDED"),
        ({"name": "PENDING", "info": {"status": "INCLUDED"}}, Verdict.ACCEPTED, "INCLUDED"),
        ("DOES_NOT_TRACK_SHARD", Verdict.UNKNOWN, "DOES_NOT_TRACK_SHARD"),
        ({"ERROR": {"debug_info": "database"}}, Verdict.UNKNOWN, "database"),
        ("SOMETHING_NEW", Verdict.UNKNOWN, "SOMETHING_NEW"),
        (17, Verdict.ACCEPTED, "TIMEOUT_ERROR"),
    ],
)
def test_a_time_out_says_why_and_proves_nothing(cause, waited, shown):
    reply = classify(timeout(cause), waited=True)
    assert reply.verdict is waited
    assert shown in reply.message
    assert classify(timeout(cause)).verdict is Verdict.UNKNOWN


async def test_included_without_an_outcome_is_included():
    world = NearWorld()
    [one], [attempt] = await world.signed()
    await world.chain.broadcast(world.lane, [attempt])
    world.network.advance(1)
    honest = world.node(0)

    async def brief(method: str, params: Any) -> Any:
        if method == "EXPERIMENTAL_tx_status":
            return {"result": {"final_execution_status": "INCLUDED"}}
        return await honest(method, params)

    world.see((brief, True, False))
    [sighting] = await world.chain.look_up(world.lane, [(one, attempt)])
    assert (sighting.where, sighting.outcome) == ("included", None)
    world.network.advance(10)
    world.see((honest, True, False))
    [sighting] = await world.chain.look_up(world.lane, [(one, attempt)])
    assert sighting.where == "final"


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"ActionError": {"index": 0, "kind": {"ReceiptStorageProofSizeExceeded": {"limit": 1}}}}, None),
        ({"ActionError": {"index": 0, "kind": "TotalPromiseInputSizeExceeded"}}, "total_promise_input_size_exceeded"),
        ({"ActionError": {"kind": {"NewValidationError": {"SomethingNew": {"size": 5}}}}}, "new_validation_error"),
        ({"SomethingElse": 5}, "something_else"),
        ("Bare", "bare"),
        ({"ActionError": 7}, "action_error"),
        (7, "failed_on_chain"),
        ([], "failed_on_chain"),
        ({"a": 1, "b": 2}, "failed_on_chain"),
    ],
)
async def test_an_error_nobody_has_heard_of_ends_the_intent_and_is_shown(told, code):
    world = NearWorld()
    one = transfer("k")
    await world.run(one)
    [hash_] = await final_hashes(world)
    status = (await world.node(0)("EXPERIMENTAL_tx_status", question(hash_)))["result"]
    status["receipts_outcome"][0]["outcome"]["status"] = {"Failure": told}
    outcome = judge(one.kind, one.payload, status, hash_, 1)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert outcome.error["cause"] == told
    assert code is None or outcome.error["code"] == code


async def final_hashes(world: NearWorld) -> list[str]:
    head = world.network.head().height
    found = []
    for height in range(head - 12, head + 1):
        answer = await world.node(0)("chunk", {"block_id": height, "shard_id": 0})
        found += [tx["hash"] for tx in answer.get("result", {}).get("transactions", [])]
    return found


def question(hash_: str) -> dict[str, str]:
    return {"tx_hash": hash_, "sender_account_id": ALICE.account_id, "wait_until": "NONE"}


@pytest.mark.parametrize("name", ["InvalidStorage", "NewlyInvented", {"WithBody": {"a": 1}}])
def test_a_refusal_nobody_has_heard_of_is_unknown_and_shown(name):
    error = RpcError({"cause": {"name": "INVALID_TRANSACTION"}, "data": {"TxExecutionError": {"InvalidTxError": name}}})
    reply = classify(error, waited=True)
    assert reply.verdict is Verdict.UNKNOWN
    assert (name if isinstance(name, str) else "WithBody") in reply.message


def test_every_recorded_error_is_read():
    """What the real node answered becomes a verdict, never an exception."""
    for line in RECORDED.read_text().splitlines():
        answer = json.loads(line)["answer"]
        if "error" in answer:
            assert classify(RpcError(answer["error"]), waited=True).message
