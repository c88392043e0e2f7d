"""DelegateV2 and post-quantum keys: accepted wherever a delegate is, held to the same rules, and really run."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.near.second_delegates import (
    MlDsaSigner,
    add_key,
    as_base64,
    as_intent,
    as_json,
    bobs,
    delegate,
    gas_key,
)
from tests.near.world import ALICE, BOB, NearWorld, intent
from txmanager.chains.near import NearPolicy, PublicKey, derived_key
from txmanager.chains.near import actions as act
from txmanager.chains.near.costs import worst_cost
from txmanager.chains.near.delegate_forms import read_delegate
from txmanager.chains.near.delegates import delegate_hash, delegate_turn, sender_key, signature_holds
from txmanager.chains.near.reading import PoolRules, read
from txmanager.chains.near.transaction import actions_of, sign_delegate
from txmanager.core.chain import Impossible
from txmanager.core.errors import InvalidInput, PolicyRefused
from txmanager.core.states import Status

RECORDED = Path(__file__).parent.parent / "devnet" / "answers.jsonl"
FORMS = [{"second": True}, {"second": True, "nonce_index": 3}]


def recorded(words: str) -> list[dict]:
    answers = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    return [a for a in answers if words in a["case"] and "signed_tx_base64" in a["request"].get("params", {})]


def test_the_delegates_that_a_real_node_took_are_read_and_written_to_the_byte():
    cases = recorded("delegate v2")
    assert len(cases) == 5
    for case in cases:
        raw = base64.b64decode(case["request"]["params"]["signed_tx_base64"])
        [signed] = actions_of(raw)
        assert isinstance(signed, act.SignedDelegate)
        assert signed.delegate.second
        assert signed.encode() in raw
        assert signature_holds(signed), case["case"]
        assert read_delegate(as_base64(signed, tagged=True)) == read_delegate(as_base64(signed)) == signed
        [view] = case["answer"]["result"]["transaction"]["actions"]
        assert read_delegate(view["DelegateV2"]) == signed


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_one_delegate_is_one_intent(form):
    world = NearWorld()
    signed = bobs(world, **form)
    readings = [
        read("near.delegate", {"signed_delegate": told}, PoolRules(ALICE.account_id))
        for told in (as_base64(signed), as_base64(signed, tagged=True), as_json(signed))
    ]
    assert len({r.derived_key for r in readings}) == len({json.dumps(r.identity) for r in readings}) == 1
    assert readings[0].derived_key == derived_key("near.delegate", {"signed_delegate": as_json(signed)})
    assert readings[0].payload == readings[1].payload == readings[2].payload
    assert read_delegate(readings[0].payload["signed_delegate"]) == signed


def test_a_sender_of_fourteen_letters_is_not_taken_for_a_discriminant():
    world = NearWorld()
    for name in ("abcdefgh", "abcdefghijklmn"):
        for form in ({}, *FORMS):
            signed = bobs(world, sender_id=name, **form)
            assert read_delegate(as_base64(signed)) == signed
            assert read_delegate(as_base64(signed, tagged=True)) == signed


def test_both_forms_of_one_nonce_compete_and_share_a_lane():
    world = NearWorld()
    first, second, indexed = bobs(world), bobs(world, second=True), bobs(world, second=True, nonce_index=3)
    assert delegate_hash(first) != delegate_hash(second) != delegate_hash(indexed)
    turns = [delegate_turn(as_intent(one).payload) for one in (first, second, indexed)]
    assert turns[0] == turns[1] != turns[2]
    assert sender_key(first) == sender_key(second) == sender_key(indexed)


def test_a_signature_over_the_first_form_is_none_over_the_second():
    world = NearWorld()
    first, second = bobs(world), bobs(world, second=True)
    assert not signature_holds(act.SignedDelegate(second.delegate, 0, first.signature))


@pytest.mark.parametrize("form", FORMS)
def test_the_policy_is_the_same_for_the_second_form(form):
    world = NearWorld()
    greedy = bobs(world, actions=(act.Transfer(10**24),), **form)
    reading = read("near.delegate", {"signed_delegate": as_base64(greedy)}, PoolRules(ALICE.account_id))
    assert isinstance(reading.refusal, PolicyRefused)
    own = bobs(world, sender_id=ALICE.account_id, receiver_id=ALICE.account_id, actions=(act.DeleteAccount("x.near"),))
    reading = read("near.delegate", {"signed_delegate": as_base64(own)}, PoolRules(ALICE.account_id))
    assert reading.own_account == {"delete_account"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"Nonce": {"nonce": -1}},
        {"GasKeyNonce": {"nonce": 1, "nonce_index": 1024}},
        {"GasKeyNonce": {"nonce": 1}},
        {"Other": {}},
        5,
        None,
    ],
)
def test_a_nonce_of_no_form_is_named(wrong):
    told = as_json(bobs(NearWorld(), second=True))
    told["delegate_action"]["V2"]["nonce"] = wrong
    with pytest.raises(InvalidInput, match=r"delegate_action\.V2\.nonce"):
        read_delegate(told)


def test_nested_and_unknown_versions_are_refused():
    inner = bobs(NearWorld(), second=True)
    raw = bytearray(inner.encode())
    raw[1] = 7
    with pytest.raises(InvalidInput, match="version 7"):
        act.read_actions(act.Reader(b"\x01\x00\x00\x00" + bytes(raw), "x"))
    nested = bobs(NearWorld(), second=True, actions=(inner,))
    with pytest.raises(InvalidInput, match="nested"):
        read_delegate(as_base64(nested))


async def test_the_second_form_with_a_plain_key_runs():
    world = NearWorld()
    outcome = await world.run(as_intent(bobs(world, second=True)))
    assert outcome.status is Status.DONE


async def test_a_users_gas_key_signs_meta_transactions():
    world = NearWorld()
    signer = await gas_key(world)
    key = PublicKey.parse(signer.public_key)

    def signed(**more) -> act.SignedDelegate:
        return sign_delegate(delegate(world, key, second=True, **more), signer)

    first = signed(nonce_index=1)
    assert (await world.run(as_intent(first))).status is Status.DONE
    for refused, why in (
        (first, "nonce_used"),
        (signed(), "nonce_form"),
        (signed(nonce_index=4), "no_such_key"),
        (sign_delegate(delegate(world, key), signer), "nonce_form"),
        (bobs(world, second=True, nonce_index=0), "no_such_key"),
    ):
        [told] = await world.chain.prepare(world.lane, [as_intent(refused)])
        assert isinstance(told, Impossible), why
        assert told.saved == why
    # another index has a sequence of its own
    assert (await world.run(as_intent(signed(nonce_index=2, nonce=first.delegate.nonce)))).status is Status.DONE


async def test_a_post_quantum_key_is_added_listed_by_its_hash_and_signs_a_delegate():
    world = NearWorld()
    user = MlDsaSigner()
    await add_key(world, str(user.key))
    assert user.key.handle in await world.chain.keys(BOB.account_id)
    for form in ({}, {"second": True}):
        world.network.advance(1)
        signed = user.sign_delegate(delegate(world, user.key, **form))
        assert read_delegate(as_json(signed)) == signed
        assert (await world.run(as_intent(signed))).status is Status.DONE


async def test_a_forged_post_quantum_signature_is_not_paid_for():
    world = NearWorld()
    user, other = MlDsaSigner(), MlDsaSigner()
    inner = delegate(world, user.key)
    wrong_key = act.SignedDelegate(inner, 2, other.sign_delegate(inner).signature)
    wrong_curve = act.SignedDelegate(inner, 0, bytes(64))
    right = user.sign_delegate(inner)
    changed = act.SignedDelegate(delegate(world, user.key, actions=(act.Transfer(6),)), 2, right.signature)
    for forged in (wrong_key, wrong_curve, changed):
        with pytest.raises(InvalidInput, match="not a signature"):
            read("near.delegate", {"signed_delegate": as_base64(forged)}, PoolRules(ALICE.account_id))
        [told] = await world.chain.prepare(world.lane, [as_intent(forged)])
        assert isinstance(told, Impossible)
    assert signature_holds(right)


def test_the_hash_in_lists_is_the_nodes_own():
    [created] = recorded("create account with an ml-dsa-65 key")
    lists = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    [listed] = [a for a in lists if a["case"] == "access keys with an ml-dsa-65 key"]
    shown = {key["public_key"] for key in listed["answer"]["result"]["keys"]}
    actions = actions_of(base64.b64decode(created["request"]["params"]["signed_tx_base64"]))
    keys = [a.public_key for a in actions if isinstance(a, act.AddKey)]
    assert {key.handle for key in keys} == shown
    assert any(key.curve == 2 for key in keys)
    with pytest.raises(InvalidInput, match="hash of a key"):
        PublicKey.parse(next(key for key in shown if "hash" in key))


async def test_an_account_is_created_with_a_post_quantum_key():
    world = NearWorld()
    key = MlDsaSigner().key
    new = f"pq.{ALICE.account_id}"
    payload = {"new_account_id": new, "public_key": str(key), "initial_balance": "10000000000000000000000"}
    reading = read("near.create_account", payload, PoolRules(ALICE.account_id))
    assert reading.derived_key == f"create:{new}:{key.handle}"
    assert len(reading.derived_key) <= 255
    assert (await world.run(intent("k", "near.create_account", payload))).status is Status.DONE
    assert set(await world.chain.keys(new)) == {key.handle}


def test_the_worst_cost_covers_what_real_delegates_and_post_quantum_keys_burnt():
    for case in [*recorded("delegate"), *recorded("ml-dsa")]:
        told = case["answer"].get("result")
        if told is None or "transaction_outcome" not in told:
            continue
        actions = actions_of(base64.b64decode(case["request"]["params"]["signed_tx_base64"]))
        outcomes = [told["transaction_outcome"], *told["receipts_outcome"]]
        burnt = sum(int(o["outcome"]["tokens_burnt"]) for o in outcomes)
        assert worst_cost(actions, 10**9).fee >= burnt, case["case"]


async def test_a_pool_may_add_post_quantum_keys_to_its_own_account():
    world = NearWorld(policy=NearPolicy(own_account=frozenset({"add_key"})))
    key = MlDsaSigner().key
    assert (await world.run(intent("k", "near.add_key", {"public_key": str(key)}))).status is Status.DONE
    assert key.handle in await world.chain.keys(ALICE.account_id)
