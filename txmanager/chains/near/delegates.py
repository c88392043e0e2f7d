"""Meta-transactions: check a user's signed delegate before our gas is spent.

The chain executes its checks after we paid, so each of them is made here first: signature, expiry, allow-lists,
nonce. Replay is caught by `delegate_hash`, which names the signed content, not its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from coincurve import PublicKey as Secp256k1Key
from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from txmanager.chains.near import actions as act
from txmanager.chains.near.delegate_forms import read_delegate
from txmanager.chains.near.effects import deposit_at_risk, in_words, name_of
from txmanager.chains.near.limits import attached_gas
from txmanager.chains.near.ml_dsa import ml_dsa_65_holds
from txmanager.chains.near.names import ML_DSA_65, b58_text
from txmanager.chains.near.policy import KeyView, NearPolicy
from txmanager.chains.near.transaction import delegate_digest
from txmanager.core.allow_lists import allowed
from txmanager.core.errors import InvalidInput, PolicyRefused
from txmanager.core.models import Json
from txmanager.core.turns import Turn


def delegate_hash(signed: act.SignedDelegate) -> str:
    """The same for every encoding and every signature of one delegate action."""
    return b58_text(delegate_digest(signed.delegate))


def signature_holds(signed: act.SignedDelegate) -> bool:
    key, digest = signed.delegate.public_key, delegate_digest(signed.delegate)
    if key.curve != signed.curve:
        return False
    if key.curve == ML_DSA_65:
        return ml_dsa_65_holds(key.data, signed.signature, digest)
    try:
        if signed.curve == 0:
            crypto_sign_open(signed.signature + digest, key.data)
            return True
        found = Secp256k1Key.from_signature_and_message(signed.signature, digest, hasher=None)
        return bool(found.format(compressed=False)[1:] == key.data)
    except (BadSignatureError, Exception):  # coincurve raises a bare Exception on what it cannot recover
        return False


class Unpaid(InvalidInput):
    """The chain would refuse it after we paid for the attempt; `why` is one word for metrics."""

    def __init__(self, field: str, problem: str, why: str) -> None:
        super().__init__(field, problem)
        self.why = why


def delegate_turn(payload: Mapping[str, Json]) -> Turn | None:
    """Which of a user's nonces a stored delegate uses up."""
    text = payload.get("signed_delegate")
    return _turn_of(text) if isinstance(text, str) else _turn(read_delegate(text))


@lru_cache(maxsize=1_024)
def _turn_of(text: str) -> Turn:
    """Every batch with a delegate asks it of every delegate in flight."""
    return _turn(read_delegate(text))


def _turn(signed: act.SignedDelegate) -> Turn:
    inner = signed.delegate
    index = "" if inner.nonce_index is None else f", nonce index {inner.nonce_index},"
    return Turn(f"{inner.public_key.handle}{index} of {inner.sender_id}", inner.nonce)


def sender_key(signed: act.SignedDelegate) -> str:
    """The same for all delegates that compete for one sequence of nonces: they share a lane."""
    inner = signed.delegate
    return f"delegates:{b58_text(sha256(inner.sender_id.encode() + inner.public_key.borsh).digest())}"


def check_delegate(signed: act.SignedDelegate, policy: NearPolicy, head: int, field: str = "signed_delegate") -> None:
    """Everything that needs only the delegate, the policy and the current height."""
    check_signature(signed, field)
    check_expiry(signed, head, policy.delegate_min_blocks_left, field)
    check_delegate_policy(signed, policy, field)


def check_expiry(signed: act.SignedDelegate, height: int, margin: int, field: str = "signed_delegate") -> None:
    last = signed.delegate.max_block_height
    if last < height + margin:
        raise Unpaid(
            f"{field}.max_block_height",
            f"is {last}, the chain is at {height}: it expires before it can run; sign a new delegate",
            "expired",
        )


def check_signature(signed: act.SignedDelegate, field: str = "signed_delegate") -> None:
    if not signature_holds(signed):
        key = signed.delegate.public_key
        raise InvalidInput(f"{field}.signature", f"is not a signature of {key.handle} over this delegate action")


def check_delegate_policy(signed: act.SignedDelegate, policy: NearPolicy, field: str = "signed_delegate") -> None:
    """Raises `PolicyRefused` for what this relayer does not pay for."""
    inner = signed.delegate
    if not allowed(inner.sender_id, policy.delegate_senders):
        raise PolicyRefused(f"{field}.sender_id", f"{inner.sender_id} may not use this relayer")
    if not allowed(inner.receiver_id, policy.delegate_receivers):
        raise PolicyRefused(f"{field}.receiver_id", f"this relayer does not pay for calls to {inner.receiver_id}")
    methods, relayed = policy.delegate_methods, policy.relayed_actions
    for index, action in enumerate(inner.actions):
        where, name = f"{field}.actions[{index}]", name_of(action)
        if name not in relayed:
            raise PolicyRefused(where, f"this relayer does not pay for {name}, only for {', '.join(sorted(relayed))}")
        if methods is not None and isinstance(action, act.FunctionCall) and action.method_name not in methods:
            raise PolicyRefused(where, f"this relayer does not pay for {action.method_name!r}")
    deposit, gas, size = deposit_at_risk(inner.actions), attached_gas(inner.actions), len(signed.encode())
    for asked, value, limit, setting in (
        (f"attach {in_words(deposit)} of the relayer's money", deposit, policy.delegate_max_deposit, "deposit"),
        (f"use {gas} gas", gas, policy.delegate_max_gas, "gas"),
        (f"are {size} bytes", size, policy.delegate_max_bytes, "bytes"),
    ):
        if value > limit:
            rule = f"policy.delegate_max_{setting} of this pool allows {limit}"
            raise PolicyRefused(f"{field}.actions", f"{asked}, but {rule}")


def check_delegate_nonce(signed: act.SignedDelegate, key: KeyView | None, field: str = "signed_delegate") -> None:
    """What needs the user's access key. `None`: the chain has no such key."""
    inner = signed.delegate
    if key is None:
        whose = f"{inner.public_key.handle} is not a key of {inner.sender_id}"
        lanes = "" if inner.nonce_index is None else f", or not a gas key with the nonce index {inner.nonce_index}"
        raise Unpaid(f"{field}.public_key", whose + lanes, "no_such_key")
    if key.gas_key and inner.nonce_index is None:
        problem = "is a plain nonce, and the key is a gas key: sign a DelegateV2 with a nonce index"
        raise Unpaid(f"{field}.nonce", problem, "nonce_form")
    if inner.nonce <= key.nonce:
        raise Unpaid(
            f"{field}.nonce",
            f"is {inner.nonce}, the key is at {key.nonce}: this delegate ran already or was overtaken; sign a new one",
            "nonce_used",
        )
    if inner.nonce >= key.height * 1_000_000:
        problem = f"is {inner.nonce}, beyond what the chain takes at height {key.height}"
        raise Unpaid(f"{field}.nonce", problem, "nonce_too_large")
    if key.permission is not None:
        try:
            check_call_permission(inner.receiver_id, inner.actions, key.permission, field)
        except InvalidInput as error:
            raise Unpaid(error.field, error.problem, "permission") from None


def check_call_permission(
    receiver_id: str, actions: tuple[act.Action, ...], permission: Mapping[str, Any], field: str
) -> None:
    """A function-call key may do one call, without deposit, to its own receiver and methods."""
    if len(actions) != 1 or not isinstance(actions[0], act.FunctionCall):
        raise InvalidInput(f"{field}.actions", "the key is a function-call key: exactly one function call is possible")
    if actions[0].deposit:
        raise InvalidInput(f"{field}.actions[0].deposit", "the key is a function-call key: no deposit is possible")
    if receiver_id != permission.get("receiver_id"):
        raise InvalidInput(f"{field}.receiver_id", f"the key may only call {permission.get('receiver_id')}")
    names = permission.get("method_names")
    if isinstance(names, list) and names and actions[0].method_name not in names:
        raise InvalidInput(f"{field}.actions[0].method_name", f"the key may only call {', '.join(map(str, names))}")
