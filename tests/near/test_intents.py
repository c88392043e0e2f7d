"""Intents: every example is accepted, every wrong field is named, and derived keys name the effect."""

from __future__ import annotations

import base64
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.near.strategies import delegates, one_of, plain_actions, public_keys
from txmanager.chains.near import KINDS, LaneId, NearPolicy, PublicKey, derived_key, parse_payload
from txmanager.chains.near import actions as act
from txmanager.chains.near.compile import compile_intent
from txmanager.chains.near.delegate_forms import read_delegate
from txmanager.chains.near.delegates import check_delegate, check_delegate_nonce, delegate_hash
from txmanager.chains.near.policy import KeyView
from txmanager.chains.near.transaction import sign_delegate
from txmanager.core.errors import InvalidInput
from txmanager.signing import Ed25519Signer, Secret

USER = Ed25519Signer(Secret(b"u" * 32))
KEY = USER.public_key
LANE = LaneId("testnet", "relayer.near", PublicKey(0, bytes(32)))
HEAD = 1_000


def delegate(**changes) -> act.SignedDelegate:
    told = {
        "sender_id": "alice.near",
        "receiver_id": "app.near",
        "actions": (act.FunctionCall("go", b"{}", 10**13, 1),),
        "nonce": 51,
        "max_block_height": HEAD + 100,
        "public_key": PublicKey.parse(KEY),
    } | changes
    return sign_delegate(act.DelegateAction(**told), USER)


def as_base64(signed: act.SignedDelegate) -> str:
    return base64.b64encode(signed.encode_bare()).decode()


def as_json(signed: act.SignedDelegate) -> dict:
    import base58

    inner = signed.delegate
    call = inner.actions[0]
    return {
        "delegate_action": {
            "sender_id": inner.sender_id,
            "receiver_id": inner.receiver_id,
            "actions": [
                {
                    "FunctionCall": {
                        "method_name": call.method_name,
                        "args": base64.b64encode(call.args).decode(),
                        "gas": call.gas,
                        "deposit": str(call.deposit),
                    }
                }
            ],
            "nonce": inner.nonce,
            "max_block_height": inner.max_block_height,
            "public_key": str(inner.public_key),
        },
        "signature": "ed25519:" + base58.b58encode(signed.signature).decode(),
    }


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "near.delegate"])
def test_every_example_is_accepted_and_compiles(kind):
    for example in KINDS[kind].model_config["json_schema_extra"]["examples"]:
        compile_intent(parse_payload(kind, example), LANE, NearPolicy(own_account=frozenset({"add_key"})))


@pytest.mark.parametrize(
    ("kind", "payload", "field", "words"),
    [
        ("near.transfer", {"receiver_id": "Bob", "amount": "1"}, "receiver_id", "not an account id"),
        ("near.transfer", {"receiver_id": "bob.near", "amount": "1.5"}, "amount", "whole number of yoctoNEAR"),
        ("near.transfer", {"receiver_id": "bob.near", "amount": -1}, "amount", "whole number"),
        ("near.transfer", {"receiver_id": "bob.near", "amount": True}, "amount", "whole number"),
        ("near.transfer", {"receiver_id": "bob.near"}, "amount", "required"),
        ("near.transfer", {"receiver_id": "bob.near", "amount": "1", "memo": "x"}, "memo", "not permitted"),
        ("near.add_key", {"public_key": "ed25519:xyz"}, "public_key", "base58 of 32 bytes"),
        ("near.add_key", {"public_key": "rsa:xyz"}, "public_key", "not supported"),
        ("near.function_call", {"contract_id": "c.near", "method_name": ""}, "method_name", "at least 1"),
        (
            "near.function_call",
            {"contract_id": "c.near", "method_name": "x", "args": {}, "args_base64": ""},
            "payload",
            "not both",
        ),
        ("near.transaction", {"receiver_id": "c.near", "actions": []}, "actions", "at least 1"),
        ("near.transaction", {"receiver_id": "c.near", "actions": [{"type": "fly"}]}, "actions.0", "fly"),
        ("near.recovery", {"account_id": "a.near", "message_id": "a b"}, "method_name", "required"),
        ("near.delegate", {"signed_delegate": 7}, "signed_delegate", "valid"),
        ("near.magic", {}, "kind", "near.create_account"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_wrong(kind, payload, field, words):
    with pytest.raises(InvalidInput) as caught:
        parse_payload(kind, payload)
    assert caught.value.field.startswith(field)
    assert words in caught.value.problem


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"new_account_id": "alice.other.near", "public_key": KEY}, "not a sub-account of relayer.near"),
        ({"new_account_id": "a.b.relayer.near", "public_key": KEY}, "not a sub-account of relayer.near"),
        ({"new_account_id": "a.b.near", "public_key": KEY, "root_contract": "near"}, "cannot be created"),
    ],
)
def test_an_account_that_cannot_be_created_from_this_lane_is_refused(payload, words):
    with pytest.raises(InvalidInput, match=words):
        compile_intent(parse_payload("near.create_account", payload), LANE, NearPolicy())


def test_arguments_take_no_more_memory_than_their_bytes():
    calls = [
        parse_payload(
            "near.function_call", {"contract_id": "ft.near", "method_name": "f", "args": {"memo": "x" * 140, "n": n}}
        )
        for n in range(200)
    ]
    calls[0].action()
    tracemalloc.start()
    kept = [call.action() for call in calls]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(kept) < 600  # the encoder's own buffer is some 4,000


def test_a_sub_account_is_created_with_balance_key_and_extras_in_one_transaction():
    payload = {
        "new_account_id": "alice.relayer.near",
        "public_key": KEY,
        "initial_balance": "5",
        "extra_actions": [{"type": "add_key", "public_key": "ed25519:" + "1" * 32}],
    }
    body = compile_intent(parse_payload("near.create_account", payload), LANE, NearPolicy())
    assert body.receiver_id == "alice.relayer.near"
    assert [type(a).__name__ for a in body.actions] == ["CreateAccount", "Transfer", "AddKey", "AddKey"]


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([{"type": "delete_account", "beneficiary_id": "b.near"}, {"type": "transfer", "amount": 1}], "last action"),
        ([{"type": "function_call", "method_name": "x", "gas": "0"}], "at least 1"),
        ([{"type": "function_call", "method_name": "x", "gas": str(10**15)}] * 2, "more than the limit"),
        ([{"type": "deploy_contract", "code_base64": "AAAA" * 600_000}], "1572864"),
    ],
)
def test_what_the_protocol_refuses_whatever_the_state_fails_before_a_nonce_is_spent(actions, words):
    with pytest.raises(InvalidInput, match=words):
        compile_intent(
            parse_payload("near.transaction", {"receiver_id": "c.near", "actions": actions}), LANE, NearPolicy()
        )


def test_a_pool_spends_no_more_than_its_policy_says():
    payload = parse_payload("near.transfer", {"receiver_id": "bob.near", "amount": "11"})
    with pytest.raises(InvalidInput, match="at most 10"):
        compile_intent(payload, LANE, NearPolicy(max_deposit=10))


def test_derived_keys_name_the_effect():
    assert derived_key("near.create_account", {"new_account_id": "a.near", "public_key": KEY}) == f"create:a.near:{KEY}"
    recovery = {"account_id": "a.near", "message_id": "m1", "contract_id": "r.near", "method_name": "recover"}
    assert derived_key("near.recovery", recovery) == "recovery:a.near:m1"
    assert derived_key("near.transfer", {"receiver_id": "b.near", "amount": 1}) is None


def test_one_delegate_has_one_key_in_every_form():
    signed = delegate()
    with_tag = base64.b64encode(signed.encode()).decode()
    forms = [as_base64(signed), with_tag, as_json(signed)]
    keys = {derived_key("near.delegate", {"signed_delegate": form}) for form in forms}
    assert keys == {f"delegate:{delegate_hash(signed)}"}
    assert derived_key("near.delegate", {"signed_delegate": as_base64(delegate(nonce=52))}) not in keys


@given(delegates(one_of(plain_actions(public_keys)), public_keys))
@settings(max_examples=60, deadline=None)
def test_a_delegate_is_read_with_and_without_its_tag(inner):
    signed = act.SignedDelegate(inner, 0, bytes(64))
    for raw in (signed.encode(), signed.encode_bare()):
        try:
            assert read_delegate(base64.b64encode(raw).decode()) == signed
        except InvalidInput as refusal:
            assert "borsh" not in str(refusal)  # read well; refused for what it asks  # noqa: PT017


@pytest.mark.parametrize(
    ("changes", "policy", "field"),
    [
        ({"max_block_height": HEAD + 3}, {}, "max_block_height"),
        ({}, {"delegate_senders": frozenset({"bob.near"})}, "sender_id"),
        ({}, {"delegate_receivers": frozenset({"*.app.near"})}, "receiver_id"),
        ({}, {"delegate_methods": frozenset({"stop"})}, "actions"),
        ({"actions": (act.Transfer(10**24),)}, {}, "actions"),
        ({"actions": (act.FunctionCall("go", b"", 301 * 10**12),)}, {}, "actions"),
        ({"actions": (act.FunctionCall("go", b"x" * 20_000, 10**13),)}, {}, "actions"),
    ],
)
def test_a_delegate_we_should_not_pay_for_is_refused_before_gas_is_spent(changes, policy, field):
    with pytest.raises(InvalidInput) as caught:
        check_delegate(delegate(**changes), NearPolicy(**policy), HEAD)
    assert caught.value.field.startswith(f"signed_delegate.{field}")


def test_a_good_delegate_passes_and_a_forged_one_does_not():
    policy = NearPolicy(delegate_senders=frozenset({"*.near"}), delegate_receivers=frozenset({"app.near"}))
    signed = delegate()
    check_delegate(signed, policy, HEAD)
    forged = act.SignedDelegate(delegate(nonce=99).delegate, 0, signed.signature)
    with pytest.raises(InvalidInput, match="is not a signature"):
        check_delegate(forged, policy, HEAD)


def test_a_delegate_signed_with_secp256k1_is_verified_too():
    from coincurve import PrivateKey

    from txmanager.chains.near.transaction import delegate_digest

    private = PrivateKey(b"\x07" * 32)
    key = PublicKey(1, private.public_key.format(compressed=False)[1:])
    inner = act.DelegateAction("alice.near", "app.near", (act.FunctionCall("go", b"", 1),), 51, HEAD + 100, key)
    signature = private.sign_recoverable(delegate_digest(inner), hasher=None)
    check_delegate(act.SignedDelegate(inner, 1, signature), NearPolicy(), HEAD)
    with pytest.raises(InvalidInput, match="is not a signature"):
        check_delegate(act.SignedDelegate(inner, 1, bytes(65)), NearPolicy(), HEAD)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "is not a key of alice.near"),
        (KeyView(51, 10**9, "x"), "ran already or was overtaken"),
        (KeyView(0, 0, "x"), "beyond what the chain takes"),
        (KeyView(50, 10**9, "x", {"receiver_id": "other.near", "method_names": []}), "no deposit"),
    ],
)
def test_a_delegate_whose_nonce_or_key_cannot_work_is_refused(key, words):
    with pytest.raises(InvalidInput, match=words):
        check_delegate_nonce(delegate(), key)


@given(
    st.text(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=9),
        lambda s: (
            st.lists(s, max_size=3)
            | st.dictionaries(
                st.sampled_from(["delegate_action", "signature", "actions", "nonce", "sender_id", "FunctionCall", "x"]),
                s,
                max_size=4,
            )
        ),
    )
)
@settings(max_examples=300, deadline=None)
def test_any_delegate_payload_is_read_or_refused_clearly(value):
    try:
        read_delegate(value)
    except InvalidInput as error:
        assert error.field.startswith("signed_delegate")  # noqa: PT017


def test_arguments_are_compact_json_whatever_they_hold():
    big, half = 2**70, "\ud800"
    wide = {"name": "Zoë", "big": big, "half": half}
    call = parse_payload("near.function_call", {"contract_id": "c.near", "method_name": "x", "args": {"name": "Zoë"}})
    [action] = compile_intent(call, LANE, NearPolicy()).actions
    assert isinstance(action, act.FunctionCall)
    assert action.args == '{"name":"Zoë"}'.encode()
    odd = parse_payload("near.function_call", {"contract_id": "c.near", "method_name": "x", "args": wide})
    [action] = compile_intent(odd, LANE, NearPolicy()).actions
    assert isinstance(action, act.FunctionCall)
    assert json.loads(action.args) == wide
