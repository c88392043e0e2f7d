"""Bytes to `Tx`, decoded by near-kit and verified by PyNaCl: never by the project's own codec.

Two independent implementations meet on the wire, so an encoding mistake on either side shows up as
a refused transaction. Anything that is not a whole transaction raises `DecodeError`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from functools import lru_cache
from typing import Any

import base58
import nacl.exceptions
import nacl.signing
from near import wire as kit
from near.keys import PublicKey

from . import model
from .delegate_v2 import Second, first_form
from .errors import DecodeError
from .validate import bad_account_id, is_account_id

_KEY_PREFIX = {"Ed25519": "ed25519:", "Secp256k1": "secp256k1:", "MlDsa65": "ml-dsa-65:"}
_DELEGATE_TAG, _SECOND_TAG = 8, 14
MAX_DECODED_ACTIONS = 1_000  # far above the protocol's hundred, whose error must still be answered


def decode(raw: bytes) -> model.Tx:
    """The transaction in `raw`. Its signature is checked later, by whoever must know."""
    _refuse_floods(raw)
    if raw[:1] != b"\x01" and raw[1:2] != b"\x00":
        # V0 begins with the length of an account id, whose second byte is zero; anything else must name its version.
        raise DecodeError(f"borsh due to: invalid transaction version tag: {raw[0] if raw else 0}")
    whole, (raw, seconds) = raw, first_form(raw)
    try:
        # V0 has no tag: its first byte is the low byte of a signer id's length, at least 2.
        signed: Any = (kit.SignedTransactionV1 if raw[:1] == b"\x01" else kit.SignedTransaction).from_borsh(raw)
        tx = signed.transaction
        # A signature is one type byte and the rest: what stands before it is what was hashed and signed.
        body = raw[: len(raw) - 1 - len(signed.signature.data)]
        if raw[len(body)] != {"Ed25519": 0, "Secp256k1": 1, "MlDsa65": 2}[signed.signature.variant]:
            raise DecodeError("trailing bytes")
        nonce, nonce_index, strict = tx.nonce, None, False
        if isinstance(signed, kit.SignedTransactionV1):
            nonce_index = getattr(tx.nonce, "nonce_index", None)
            nonce, strict = tx.nonce.nonce, tx.nonce_mode.variant == "Strict"
        for account_id in (tx.signer_id, tx.receiver_id):
            if not is_account_id(account_id):
                raise DecodeError(f"borsh due to: {bad_account_id(account_id)}")
        actions = [_action(action) for action in tx.actions]
        for number, second in seconds.items():
            actions[number] = _second(actions[number], second)
        same_curve = tx.public_key.variant == signed.signature.variant
        return model.Tx(
            signer_id=tx.signer_id,
            public_key=_key(tx.public_key.variant, tx.public_key.data),
            nonce=nonce,
            receiver_id=tx.receiver_id,
            block_hash=tx.block_hash,
            actions=tuple(actions),
            hash=hashlib.sha256(whole[: len(whole) - 1 - len(signed.signature.data)]).digest(),
            nonce_index=nonce_index,
            strict=strict,
            version=1 if raw[:1] == b"\x01" else 0,
            size=len(whole),
            signature=signed.signature.data,
            valid_signature=None if same_curve else False,
        )
    except DecodeError:
        raise
    except Exception as cause:  # near-kit has no one error for bad bytes: struct, pydantic, index, unicode
        raise DecodeError(f"borsh due to: {type(cause).__name__}") from cause


def _refuse_floods(raw: bytes) -> None:
    """A million one-byte actions would keep the decoder busy for seconds; the protocol allows a hundred.

    Reads no more than the way to the two places where a list is announced. Bytes that end before are
    left for near-kit to refuse.
    """
    try:
        at = 1 if raw[:1] == b"\x01" else 0
        at = _after_text(raw, at)
        at += 1 + {0: 32, 1: 64, 2: 1952}[raw[at]]
        at += 8 if raw[:1] != b"\x01" else {0: 9, 1: 11}[raw[at]]
        at = _after_text(raw, at) + 32
        count = int.from_bytes(raw[at : at + 4], "little")
        if count and raw[at + 4] in (_DELEGATE_TAG, _SECOND_TAG):
            version = raw[at + 4] == _SECOND_TAG
            at = _after_text(raw, _after_text(raw, at + 5 + version))
            count = max(count, int.from_bytes(raw[at : at + 4], "little"))
    except (IndexError, KeyError):
        return
    if count > MAX_DECODED_ACTIONS:
        raise DecodeError(f"too many actions: {count}")


def _after_text(raw: bytes, at: int) -> int:
    return at + 4 + int.from_bytes(raw[at : at + 4], "little")


def decode_base64(text: str) -> model.Tx:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as cause:
        raise DecodeError(f"base64 due to: {_bad_base64(text)}") from cause
    return decode(raw)


def _bad_base64(text: str) -> str:
    for offset, byte in enumerate(text.encode()):
        if not (chr(byte).isalnum() or byte in b"+/="):
            return f"Invalid byte {byte}, offset {offset}."
    return "Invalid padding"


def _second(action: model.Action, second: Second) -> model.Action:
    """A delegate that was written in the second form, as it was meant."""
    assert isinstance(action, model.Delegate)
    ok = _verify(action.public_key, second.digest, base58.b58decode(action.signature.partition(":")[2]))
    return action._replace(signature_ok=ok, second=True, nonce_index=second.nonce_index)


def verify(tx: model.Tx) -> bool:
    return _verify(tx.public_key, tx.hash, tx.signature)


def _verify(public_key: str, digest: bytes, signature: bytes) -> bool:
    if public_key.startswith("ml-dsa-65:"):
        return bool(PublicKey.parse(public_key).verify(signature, digest))
    if not public_key.startswith("ed25519:"):
        return False  # docs/devnet.md says so
    try:
        _verify_key(public_key).verify(digest, signature)
    except (nacl.exceptions.BadSignatureError, ValueError):
        return False
    return True


@lru_cache(maxsize=4096)
def _verify_key(public_key: str) -> nacl.signing.VerifyKey:
    return nacl.signing.VerifyKey(base58.b58decode(public_key[8:]))


@lru_cache(maxsize=4096)
def _key(variant: str, data: bytes) -> str:
    return _KEY_PREFIX[variant] + base58.b58encode(data).decode()


def _key_of(public_key: Any) -> str:
    return _key(public_key.variant, public_key.data)


def _permission(call: Any) -> model.Permission:
    return model.Permission(call.receiver_id, tuple(call.method_names), call.allowance)


def _add_key(action: Any) -> model.AddKey:
    permission = action.access_key.permission
    call, lanes, balance = None, None, 0
    if permission.variant == "FunctionCall":
        call = _permission(permission)
    elif permission.variant == "GasKeyFunctionCall":
        call = _permission(permission.function_call)
    if permission.variant.startswith("GasKey"):
        lanes, balance = permission.gas_key_info.num_nonces, permission.gas_key_info.balance
    return model.AddKey(_key_of(action.public_key), call, lanes, action.access_key.nonce, balance)


def _delegate(action: Any) -> model.Delegate:
    inner, signature = action.delegate_action, action.signature
    public_key = _key_of(inner.public_key)
    ok = signature.variant == inner.public_key.variant and _verify(
        public_key, kit.delegate_action_signing_hash(inner), signature.data
    )
    return model.Delegate(
        sender_id=inner.sender_id,
        receiver_id=inner.receiver_id,
        actions=tuple([_action(a) for a in inner.actions]),
        nonce=inner.nonce,
        max_block_height=inner.max_block_height,
        public_key=public_key,
        signature_ok=ok,
        signature=_KEY_PREFIX[signature.variant] + base58.b58encode(signature.data).decode(),
    )


def _action(action: Any) -> model.Action:
    make = _ACTIONS.get(action.variant)
    if make is not None:
        made: model.Action = make(action)
        return made
    view = {field: repr(value) for field, value in action.model_dump().items() if field != "variant"}
    return model.Unsupported(action.variant, {action.variant: view})


_ACTIONS: dict[str, Any] = {
    "CreateAccount": lambda a: model.CreateAccount(),
    "DeployContract": lambda a: model.DeployContract(a.code),
    "FunctionCall": lambda a: model.FunctionCall(a.method_name, a.args, a.gas, a.deposit),
    "Transfer": lambda a: model.Transfer(a.deposit),
    "AddKey": _add_key,
    "DeleteKey": lambda a: model.DeleteKey(_key_of(a.public_key)),
    "DeleteAccount": lambda a: model.DeleteAccount(a.beneficiary_id),
    "SignedDelegate": _delegate,
    "TransferToGasKey": lambda a: model.TransferToGasKey(_key_of(a.public_key), a.deposit),
    "WithdrawFromGasKey": lambda a: model.WithdrawFromGasKey(_key_of(a.public_key), a.amount),
}
