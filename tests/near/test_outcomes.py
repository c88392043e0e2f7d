"""The judge on real receipts: what failed is failed whatever the top status says, and refunds are nobody's failure."""

from __future__ import annotations

import base64
import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.near.world import ALICE, BOB, NearWorld, intent, lane_of, transfer
from txmanager.chains.near import NearPolicy, PublicKey, derived_key
from txmanager.chains.near import actions as act
from txmanager.chains.near.judge import judge
from txmanager.chains.near.transaction import sign_delegate
from txmanager.core.chain import Impossible
from txmanager.core.models import Outcome
from txmanager.core.states import Status
from txmanager.rpc import BadAnswer

KEY = "ed25519:" + "1" * 32
NEAR = 10**24


def call(method: str, contract: str = "counter.near", **args) -> dict:
    return {"contract_id": contract, "method_name": method, "args": args}


async def test_a_transfer_is_done_with_what_it_burnt():
    outcome = await NearWorld().run(transfer("k"))
    assert outcome.status is Status.DONE
    assert outcome.error is None
    assert int(outcome.result["tokens_burnt"]) > 0
    assert outcome.result["receipt_errors"] == []


async def test_a_call_answers_its_value_and_logs():
    outcome = await NearWorld().run(intent("k", "near.function_call", call("increment", by=3)))
    assert (outcome.result["value"], outcome.result["logs"]) == (3, ["counter is 3"])


async def test_a_contract_that_panics_is_a_failure_with_its_hash_and_cost():
    outcome = await NearWorld().run(intent("k", "near.function_call", call("fail", message="no!")))
    assert outcome.status is Status.FAILED
    assert outcome.tx_hash
    assert outcome.error["code"] == "contract_panicked"
    assert outcome.error["new_key_helps"] is True
    assert int(outcome.error["spent"]) == int(outcome.result["tokens_burnt"]) > 0
    assert "no!" in str(outcome.result["receipt_errors"])


async def test_a_sub_account_is_created_once_and_the_second_try_says_that_it_exists():
    world = NearWorld()
    payload = {"new_account_id": f"new.{ALICE.account_id}", "public_key": KEY, "initial_balance": str(NEAR)}
    first = await world.run(intent("k1", "near.create_account", payload))
    assert first.status is Status.DONE
    second = await world.run(intent("k2", "near.create_account", payload))
    assert second.status is Status.FAILED
    assert second.error["code"] == "account_already_exists"
    assert second.error["new_key_helps"] is False


async def test_a_root_contract_that_answers_false_is_a_failure():
    world = NearWorld()
    payload = {
        "new_account_id": "fresh.near",
        "public_key": KEY,
        "initial_balance": str(NEAR),
        "root_contract": "near",
    }
    first = await world.run(intent("k1", "near.create_account", payload))
    assert (first.status, first.result["value"]) == (Status.DONE, True)
    second = await world.run(intent("k2", "near.create_account", payload))
    assert second.result["value"] is False
    assert second.status is Status.FAILED
    assert second.error["code"] == "account_already_exists"


async def test_the_word_false_is_no_failure_of_any_other_call():
    world = NearWorld()
    status = await final_status(world, transfer("k"))
    status["receipts_outcome"][0]["outcome"]["status"] = {"SuccessValue": base64.b64encode(b"false").decode()}
    assert judge("near.function_call", {}, status, "h", 1).status is Status.DONE
    assert judge("near.create_account", {"root_contract": "near"}, status, "h", 1).status is Status.FAILED
    assert judge("near.create_account", {}, status, "h", 1).status is Status.DONE


def delegate_of(world: NearWorld, *actions: act.PlainAction, receiver: str = "counter.near", nonce: int = 1) -> dict:
    _, signer = lane_of(BOB)
    key, block = world.network.access_key(BOB.account_id, signer.public_key)
    inner = act.DelegateAction(
        BOB.account_id, receiver, actions, key.nonce + nonce, block.height + 200, PublicKey.parse(signer.public_key)
    )
    return {"signed_delegate": base64.b64encode(sign_delegate(inner, signer).encode_bare()).decode()}


def increment(method: str = "increment") -> act.FunctionCall:
    return act.FunctionCall(method, b"{}", 10**13)


async def test_a_delegate_runs_in_the_users_name_and_answers_the_inner_result():
    world = NearWorld()
    outcome = await world.run(intent("k", "near.delegate", delegate_of(world, increment())))
    assert outcome.status is Status.DONE
    assert outcome.result["value"] == 1


async def test_a_delegate_that_fails_inside_is_a_failure_under_a_successful_outer_status():
    world = NearWorld()
    wanted = intent("k", "near.delegate", delegate_of(world, increment("fail")))
    outcome = await world.run(wanted)
    assert outcome.status is Status.FAILED
    assert outcome.error["new_key_helps"] is False
    assert "sign a new delegate" in outcome.error["message"]


async def test_a_delegate_is_judged_by_its_inner_receipt_where_the_outer_one_answers_for_itself():
    world = NearWorld()
    wanted = intent("k", "near.delegate", delegate_of(world, increment("fail")))
    status = await final_status(world, wanted)
    outer = status["transaction_outcome"]["outcome"]["receipt_ids"][0]
    for receipt in status["receipts_outcome"]:
        if receipt["id"] == outer:
            receipt["outcome"]["status"] = {"SuccessValue": ""}
    status["status"] = {"SuccessValue": ""}
    assert judge("near.delegate", wanted.payload, status, "h", 1).status is Status.FAILED


async def test_a_delegate_that_ran_is_refused_before_gas_is_spent_again():
    world = NearWorld()
    payload = delegate_of(world, increment())
    await world.run(intent("k", "near.delegate", payload))
    [again] = await world.chain.prepare(world.lane, [intent("k2", "near.delegate", payload)])
    assert isinstance(again, Impossible)
    assert "ran already" in again.error["message"]
    assert derived_key("near.delegate", payload).startswith("delegate:")


async def test_delegates_outside_the_allow_lists_are_refused():
    world = NearWorld(policy=NearPolicy(delegate_receivers=frozenset({"ft.near"})))
    [refused] = await world.chain.prepare(world.lane, [intent("k", "near.delegate", delegate_of(world, increment()))])
    assert isinstance(refused, Impossible)
    assert refused.error["field"] == "signed_delegate.receiver_id"


async def test_one_bad_intent_of_a_batch_fails_alone():
    world = NearWorld()
    bad = intent("bad", "near.transfer", {"receiver_id": "NOT AN ID", "amount": "1"})
    first, second, third = await world.chain.prepare(world.lane, [transfer("a"), bad, transfer("b")])
    assert isinstance(second, Impossible)
    assert second.error["field"] == "receiver_id"
    assert not isinstance(first, Impossible)
    assert not isinstance(third, Impossible)


@pytest.mark.parametrize("kind", ["done", "failed"])
async def test_two_observers_build_the_same_outcome_whenever_they_look(kind):
    """At a lower finality the refunds have not run yet; the outcome must not depend on that."""
    outcomes: set[str] = set()
    for finality, blocks in (("EXECUTED_OPTIMISTIC", 3), ("EXECUTED", 4), ("FINAL", 12)):
        world = NearWorld(finality=finality)
        method = "increment" if kind == "done" else "fail"
        outcome: Outcome = await world.run(intent("k", "near.function_call", call(method)), blocks)
        outcomes.add(repr(outcome))
    assert len(outcomes) == 1


async def final_status(world: NearWorld, wanted) -> dict:
    outcome = await world.run(wanted)
    params = {"tx_hash": outcome.tx_hash, "sender_account_id": ALICE.account_id, "wait_until": "NONE"}
    return copy.deepcopy(await world.rpc.call("EXPERIMENTAL_tx_status", params))


async def test_a_failed_refund_is_not_a_failure():
    world = NearWorld()
    status = await final_status(world, intent("k", "near.function_call", call("increment")))
    refunds = {r["receipt_id"] for r in status["receipts"] if r["predecessor_id"] == "system"}
    assert refunds
    for outcome in status["receipts_outcome"]:
        if outcome["id"] in refunds:
            outcome["outcome"]["status"] = {"Failure": {"ActionError": {"index": 0, "kind": "AccountDoesNotExist"}}}
    judged = judge("near.function_call", {}, status, "h", 1)
    assert judged.status is Status.DONE
    assert judged.result["receipt_errors"] == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


async def test_a_damaged_status_is_a_bad_answer_and_never_a_crash():
    world = NearWorld()
    status = await final_status(world, intent("k", "near.function_call", call("increment")))
    places = list(_places(status))

    @given(
        st.sampled_from(places), json_values, st.sampled_from(["near.delegate", "near.create_account", "near.transfer"])
    )
    @settings(max_examples=400, deadline=None)
    def damaged(place, value, kind):
        broken = copy.deepcopy(status)
        target = broken
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = value
        try:
            outcome = judge(kind, {"root_contract": "near"}, broken, "h", 1)
        except BadAnswer:
            return
        assert outcome.status in (Status.DONE, Status.FAILED)

    damaged()


def _places(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*path, name)
        yield from _places(inner, (*path, name))
