"""Decoding: what near-kit reads is what was signed, and no bytes keep the decoder busy."""

from __future__ import annotations

import hashlib
import struct
import time

import base58
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from near import actions
from near import wire as kit
from near.delegate import sign_delegate_action
from near.keys import KeyPairSigner, generate_key, parse_key

from txmanager.devnet import DecodeError, key_pair, model
from txmanager.devnet.wire import decode, verify

KEY = key_pair(4, "wire")
SIGNER = KeyPairSigner("dev0.near", parse_key(KEY.private_key))
OTHER = key_pair(5, "wire").public_key


def signed(*chosen, v1=False, lane=None, strict=False, nonce=9):
    told = {
        "signer_id": "dev0.near",
        "public_key": kit.to_wire_public_key(SIGNER.public_key),
        "receiver_id": "dev1.near",
        "block_hash": bytes(range(32)),
        "actions": list(chosen),
    }
    if not v1:
        return kit.sign_transaction(kit.Transaction(nonce=nonce, **told), SIGNER)
    wrapped = kit.TransactionNonce.Nonce(nonce=nonce)
    if lane is not None:
        wrapped = kit.TransactionNonce.GasKeyNonce(nonce=nonce, nonce_index=lane)
    mode = kit.NonceMode.Strict() if strict else kit.NonceMode.Monotonic()
    return kit.sign_transaction(kit.TransactionV1(nonce=wrapped, nonce_mode=mode, **told), SIGNER)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (actions.transfer("1 yocto"), model.Transfer(1)),
        (actions.create_account(), model.CreateAccount()),
        (actions.deploy_contract(b"code"), model.DeployContract(b"code")),
        (actions.delete_account("dev2.near"), model.DeleteAccount("dev2.near")),
        (actions.delete_key(OTHER), model.DeleteKey(OTHER)),
        (actions.add_full_access_key(OTHER), model.AddKey(OTHER)),
        (
            actions.add_function_call_key(OTHER, "c.near", method_names=["a"], allowance="1 NEAR"),
            model.AddKey(OTHER, model.Permission("c.near", ("a",), 10**24)),
        ),
        (actions.add_gas_key(OTHER, num_nonces=4), model.AddKey(OTHER, None, 4)),
        (actions.transfer_to_gas_key(OTHER, "1 NEAR"), model.TransferToGasKey(OTHER, 10**24)),
        (actions.withdraw_from_gas_key(OTHER, "1 NEAR"), model.WithdrawFromGasKey(OTHER, 10**24)),
        (
            actions.function_call("m", {"a": 1}, gas="5 Tgas", deposit="1 yocto"),
            model.FunctionCall("m", b'{"a":1}', 5 * 10**12, 1),
        ),
    ],
)
def test_every_action_is_read_as_it_was_written(action, expected):
    _, raw = signed(action)
    [read] = decode(raw).actions
    assert (type(read), read) == (type(expected), expected)


@pytest.mark.parametrize(
    ("options", "lane", "strict", "version"),
    [({}, None, False, 0), ({"v1": True}, None, False, 1), ({"v1": True, "lane": 3, "strict": True}, 3, True, 1)],
)
def test_both_versions_keep_their_hash_and_signature(options, lane, strict, version):
    tx_hash, raw = signed(actions.transfer("1 yocto"), **options)
    tx = decode(raw)
    assert base58.b58encode(tx.hash).decode() == tx_hash
    assert (tx.nonce, tx.nonce_index, tx.strict, tx.version) == (9, lane, strict, version)
    assert (tx.public_key, tx.size) == (KEY.public_key, len(raw))
    assert verify(tx)


def test_a_signature_of_another_key_or_of_other_bytes_does_not_verify():
    _, raw = signed(actions.transfer("1 yocto"))
    for position in (5, 40, len(raw) - 1):
        damaged = bytearray(raw)
        damaged[position] ^= 1
        assert not verify(decode(bytes(damaged)))


@pytest.mark.parametrize("change", ["none", "nonce", "receiver", "signature"])
def test_a_delegates_signature_covers_all_of_it(change):
    inner = kit.DelegateAction(
        sender_id="dev0.near",
        receiver_id="counter.near",
        actions=[actions.transfer("1 yocto")],
        nonce=5,
        max_block_height=100,
        public_key=kit.to_wire_public_key(SIGNER.public_key),
    )
    delegate = sign_delegate_action(inner, SIGNER)
    if change == "nonce":
        delegate.delegate_action.nonce = 6
    elif change == "receiver":
        delegate.delegate_action.receiver_id = "else.near"
    elif change == "signature":
        delegate.signature = kit.to_wire_signature(SIGNER.public_key.key_type, generate_key().sign(b"x"))
    [read] = decode(signed(delegate)[1]).actions
    assert isinstance(read, model.Delegate)
    assert read.signature_ok == (change == "none")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_decode_or_are_refused(raw):
    try:
        tx = decode(raw)
    except DecodeError:
        return
    assert tx.hash == hashlib.sha256(raw[: -1 - len(tx.signature)]).digest()


@given(st.binary(min_size=1, max_size=20))
def test_bytes_behind_the_end_are_refused(tail):
    with pytest.raises(DecodeError):
        decode(signed(actions.transfer("1 yocto"))[1] + tail)


@pytest.mark.parametrize("delegated", [False, True])
def test_a_flood_of_actions_is_refused_at_once(delegated):
    _, raw = signed(actions.transfer("1 yocto"))
    head = raw[: raw.index(bytes(range(32))) + 32]
    flood = struct.pack("<I", 1_000_000) + bytes(1_000_000)
    if delegated:
        name = struct.pack("<I", 9) + b"dev0.near"
        flood = struct.pack("<I", 1) + b"\x08" + name + name + flood
    started = time.process_time()
    with pytest.raises(DecodeError, match="too many actions"):
        decode(head + flood + bytes(65))
    assert time.process_time() - started < 0.5


def test_a_hundred_and_one_actions_still_decode_for_the_protocols_own_refusal():
    _, raw = signed(*[actions.create_account()] * 101)
    assert len(decode(raw).actions) == 101
