"""Our bytes are everybody's bytes: near-kit, nearcore's own Rust types and near-api-py agree on every case."""

from __future__ import annotations

from hashlib import sha256

import base58
import near.wire as kit
import py_near_primitives as rust
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from near.keys import Ed25519KeyPair

from tests.near.strategies import (
    account_ids,
    delegates,
    ed25519_keys,
    one_of,
    plain_actions,
    public_keys,
    signers,
    u64,
)
from txmanager.chains.near import actions as act
from txmanager.chains.near.names import LaneId, PublicKey, b58_text
from txmanager.chains.near.transaction import Envelope, call_bytes, delegate_digest, sign_delegate
from txmanager.core.errors import InvalidInput
from txmanager.signing import Ed25519Signer

hashes = st.binary(min_size=32, max_size=32)
every_action = one_of(plain_actions(public_keys))
rust_actions = one_of(plain_actions(ed25519_keys), "add_gas_key", "to_gas_key", "from_gas_key")
old_actions = one_of(plain_actions(ed25519_keys), "add_call_key", "add_gas_key", "to_gas_key", "from_gas_key")


def sign(signer, account_id, nonce, receiver_id, block_hash, actions, index=None, strict=False):
    envelope = Envelope(account_id, PublicKey.parse(signer.public_key), signer, index, strict)
    receiver, encoded = call_bytes(receiver_id, tuple(actions))
    return envelope.sign_now([(nonce, receiver, encoded)], block_hash)[0]


# near-kit


def kit_key(key: PublicKey):
    return (kit.PublicKeyWire.Ed25519 if key.curve == 0 else kit.PublicKeyWire.Secp256k1)(data=key.data)


def kit_permission(action: act.AddKey):
    call = action.permission
    words = {}
    if call is not None:
        words = {
            "allowance": call.allowance,
            "receiver_id": call.receiver_id,
            "method_names": list(call.method_names),
        }
    kinds = kit.AccessKeyPermission
    if action.num_nonces is None:
        return kinds.FunctionCall(**words) if call is not None else kinds.FullAccess()
    info = kit.GasKeyInfo(balance=action.gas_balance, num_nonces=action.num_nonces)
    if call is None:
        return kinds.GasKeyFullAccess(gas_key_info=info)
    return kinds.GasKeyFunctionCall(gas_key_info=info, function_call=kit.FunctionCallPermission(**words))


def kit_action(action):
    kinds = kit.Action
    match action:
        case act.CreateAccount():
            return kinds.CreateAccount()
        case act.DeployContract():
            return kinds.DeployContract(code=action.code)
        case act.FunctionCall(method, args, gas, deposit):
            return kinds.FunctionCall(method_name=method, args=args, gas=gas, deposit=deposit)
        case act.Transfer():
            return kinds.Transfer(deposit=action.deposit)
        case act.Stake():
            return kinds.Stake(stake=action.stake, public_key=kit_key(action.public_key))
        case act.AddKey():
            key = kit.AccessKey(nonce=action.nonce, permission=kit_permission(action))
            return kinds.AddKey(public_key=kit_key(action.public_key), access_key=key)
        case act.DeleteKey():
            return kinds.DeleteKey(public_key=kit_key(action.public_key))
        case act.DeleteAccount():
            return kinds.DeleteAccount(beneficiary_id=action.beneficiary_id)
        case act.TransferToGasKey():
            return kinds.TransferToGasKey(public_key=kit_key(action.public_key), deposit=action.deposit)
        case act.WithdrawFromGasKey():
            return kinds.WithdrawFromGasKey(public_key=kit_key(action.public_key), amount=action.amount)
        case act.SignedDelegate():
            signature = kit.SignatureWire.Ed25519 if action.curve == 0 else kit.SignatureWire.Secp256k1
            return kinds.SignedDelegate(
                delegate_action=kit_delegate(action.delegate), signature=signature(data=action.signature)
            )


def kit_delegate(delegate: act.DelegateAction):
    return kit.DelegateAction(
        sender_id=delegate.sender_id,
        receiver_id=delegate.receiver_id,
        actions=[kit_action(a) for a in delegate.actions],
        nonce=delegate.nonce,
        max_block_height=delegate.max_block_height,
        public_key=kit_key(delegate.public_key),
    )


def kit_signed(signer: Ed25519Signer, tx) -> bytes:
    pair = Ed25519KeyPair.from_string(signer.export().reveal().decode())
    return kit.sign_transaction(tx, pair)[1]


@given(
    signers,
    account_ids,
    u64,
    account_ids,
    hashes,
    st.lists(every_action, max_size=4),
    delegates(every_action, public_keys),
)
@settings(max_examples=150, deadline=None)
def test_transactions_are_the_bytes_of_near_kit(signer, account_id, nonce, receiver_id, block_hash, actions, delegate):
    signed_delegate = act.SignedDelegate(delegate, 1, bytes(65))
    for listed in (actions, [*actions, signed_delegate]):
        tx = kit.Transaction(
            signer_id=account_id,
            public_key=kit_key(PublicKey.parse(signer.public_key)),
            nonce=nonce,
            receiver_id=receiver_id,
            block_hash=block_hash,
            actions=[kit_action(a) for a in listed],
        )
        ours = sign(signer, account_id, nonce, receiver_id, block_hash, listed)
        assert ours.raw == kit_signed(signer, tx)
        assert ours.hash == sha256(tx.to_borsh()).digest()


@given(
    signers,
    account_ids,
    u64,
    st.none() | st.integers(0, 1023),
    st.booleans(),
    hashes,
    st.lists(every_action, max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_gas_key_and_strict_transactions_are_the_bytes_of_near_kit(
    signer, account_id, nonce, index, strict, block_hash, actions
):
    if index is None and not strict:
        strict = True  # the one combination that is written as V0
    told = kit.TransactionNonce
    tx = kit.TransactionV1(
        signer_id=account_id,
        public_key=kit_key(PublicKey.parse(signer.public_key)),
        nonce=told.Nonce(nonce=nonce) if index is None else told.GasKeyNonce(nonce=nonce, nonce_index=index),
        receiver_id="receiver.near",
        block_hash=block_hash,
        actions=[kit_action(a) for a in actions],
        nonce_mode=kit.NonceMode.Strict() if strict else kit.NonceMode.Monotonic(),
    )
    ours = sign(signer, account_id, nonce, "receiver.near", block_hash, actions, index, strict)
    assert ours.raw == kit_signed(signer, tx)


@given(delegates(every_action, public_keys), signers)
@settings(max_examples=150, deadline=None)
def test_delegates_are_the_bytes_and_the_hash_of_near_kit_and_read_back(delegate, signer):
    assert delegate_digest(delegate) == kit.delegate_action_signing_hash(kit_delegate(delegate))
    signed = sign_delegate(delegate, signer)
    if signed.curve == 0:
        assert signed.encode_bare() == kit_action(signed).to_borsh()
        assert act.decode_signed_delegate(signed.encode_bare(), "x") == signed


# py-near-primitives: nearcore's own types


def rust_action(action):
    match action:
        case act.CreateAccount():
            return rust.CreateAccountAction()
        case act.DeployContract():
            return rust.DeployContractAction(action.code)
        case act.FunctionCall(method, args, gas, deposit):
            return rust.FunctionCallAction(method, args, gas, deposit)
        case act.Transfer():
            return rust.TransferAction(action.deposit)
        case act.Stake():
            return rust.StakeAction(action.stake, action.public_key.data)
        case act.AddKey():
            permission = rust.AccessKeyPermissionFieldless.FullAccess
            if (call := action.permission) is not None:
                permission = rust.FunctionCallPermission(call.receiver_id, list(call.method_names), call.allowance)
            return rust.AddKeyAction(action.public_key.data, rust.AccessKey(action.nonce, permission))
        case act.DeleteKey():
            return rust.DeleteKeyAction(action.public_key.data)
        case act.DeleteAccount():
            return rust.DeleteAccountAction(action.beneficiary_id)


def rust_delegate(delegate: act.DelegateAction):
    return rust.DelegateAction(
        delegate.sender_id,
        delegate.receiver_id,
        [rust_action(a) for a in delegate.actions],
        delegate.nonce,
        delegate.max_block_height,
        delegate.public_key.data,
    )


@given(
    signers,
    account_ids,
    u64,
    account_ids,
    hashes,
    st.lists(rust_actions, max_size=4),
    delegates(rust_actions, ed25519_keys),
)
@settings(max_examples=150, deadline=None)
def test_transactions_and_delegates_are_the_bytes_of_nearcore(
    signer, account_id, nonce, receiver_id, block_hash, actions, delegate
):
    signed = sign_delegate(delegate, signer)
    theirs = rust_delegate(delegate)
    assert delegate.encode() == bytes(theirs.serialize())
    assert delegate_digest(delegate) == bytes(theirs.get_nep461_hash())
    relayed = rust.SignedDelegateAction(theirs, signed.signature)
    for ours, listed in ((actions, []), ([*actions, signed], [relayed])):
        tx = rust.Transaction(
            account_id,
            signer.public_bytes,
            nonce,
            receiver_id,
            block_hash,
            [*(rust_action(a) for a in actions), *listed],
        )
        made = sign(signer, account_id, nonce, receiver_id, block_hash, ours)
        assert made.raw == bytes(bytearray(tx.to_vec(exported(signer))))
        assert made.hash == bytes(bytearray(tx.get_hash()))


def exported(signer: Ed25519Signer) -> bytes:
    return base58.b58decode(signer.export().reveal().decode().removeprefix("ed25519:"))


# near-api-py


@given(signers, account_ids, u64, account_ids, hashes, st.lists(old_actions, max_size=4))
@settings(max_examples=80, deadline=None)
def test_transactions_are_the_bytes_of_near_api_py(signer, account_id, nonce, receiver_id, block_hash, actions):
    old = pytest.importorskip("near_api.transactions", reason="near-api-py installs on Python < 3.12 only")
    old_signer = pytest.importorskip("near_api.signer")

    def translate(action):
        match action:
            case act.CreateAccount():
                return old.create_create_account_action()
            case act.DeployContract():
                return old.create_deploy_contract_action(action.code)
            case act.FunctionCall(method, args, gas, deposit):
                return old.create_function_call_action(method, args, gas, deposit)
            case act.Transfer():
                return old.create_transfer_action(action.deposit)
            case act.Stake():
                return old.create_staking_action(action.stake, action.public_key.data)
            case act.AddKey():
                return old.create_full_access_key_action(action.public_key.data)
            case act.DeleteKey():
                return old.create_delete_access_key_action(action.public_key.data)
            case act.DeleteAccount():
                made, body = old.Action(), old.DeleteAccount()
                body.beneficiaryId = action.beneficiary_id
                made.enum, made.deleteAccount = "deleteAccount", body
                return made

    pair = old_signer.KeyPair(signer.export().reveal().decode())
    theirs = old.sign_and_serialize_transaction(
        receiver_id, nonce, [translate(a) for a in actions], block_hash, old_signer.Signer(account_id, pair)
    )
    assert sign(signer, account_id, nonce, receiver_id, block_hash, actions).raw == bytes(theirs)


# reading


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_reading_a_delegate_from_any_bytes_is_a_delegate_or_a_clear_error(raw):
    try:
        signed = act.decode_signed_delegate(raw, "signed_delegate")
    except InvalidInput:
        return
    assert signed.encode_bare() == raw


@given(delegates(every_action, public_keys), st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_delegate_never_reads_as_something_else(delegate, data):
    raw = act.SignedDelegate(delegate, 0, bytes(64)).encode_bare()
    at = data.draw(st.integers(0, len(raw) - 1))
    damaged = raw[:at] + bytes(((raw[at] + data.draw(st.integers(1, 255))) % 256,)) + raw[at + 1 :]
    try:
        read = act.decode_signed_delegate(damaged, "x")
    except InvalidInput:
        return
    assert read.encode_bare() == damaged


@given(st.binary(max_size=70))
def test_base58_is_everybodys_base58(raw):
    assert b58_text(raw) == base58.b58encode(raw).decode()


@pytest.mark.parametrize("index", [None, 0, 1023])
def test_a_lane_id_reads_back(index):
    text = str(LaneId("testnet", "relayer.testnet", PublicKey(0, bytes(32)), index))
    assert str(LaneId.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "near:testnet:relayer.testnet:ed25519:" + "1" * 31,
        "near:testnet:Relayer.testnet:ed25519:" + "1" * 32,
        "near:testnet:relayer.testnet:rsa:" + "1" * 32,
        "near:testnet:relayer.testnet:ed25519:" + "1" * 32 + ":1024",
        "near:testnet:relayer.testnet:ed25519:" + "1" * 32 + ":x",
        "evm:1:0x0",
    ],
)
def test_a_wrong_lane_id_is_refused(text):
    with pytest.raises(InvalidInput) as caught:
        LaneId.parse(text)
    assert caught.value.field == "lane"
