"""Meta-transactions: check a user's signed delegate before our gas is spent.

The chain executes its checks after we paid, so each of them is made here first: signature, expiry, allow-lists,
nonce. Replay is caught by `delegate_hash`, which names the signed content, not its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coincurve import PublicKey as Secp256k1Key
from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from txmanager.chains.near import actions as act
from txmanager.chains.near.effects import deposit_at_risk, in_words, name_of
from txmanager.chains.near.limits import attached_gas
from txmanager.chains.near.names import b58_text
from txmanager.chains.near.policy import KeyView, NearPolicy, allowed
from txmanager.chains.near.transaction import delegate_digest
from txmanager.core.errors import InvalidInput, PolicyRefused


def delegate_hash(signed: act.SignedDelegate) -> str:
    """The same for every encoding and every signature of one delegate action."""
    return b58_text(delegate_digest(signed.delegate))


def signature_holds(signed: act.SignedDelegate) -> bool:
    key, digest = signed.delegate.public_key, delegate_digest(signed.delegate)
    if key.curve != signed.curve:
        return False
    try:
        if signed.curve == 0:
            crypto_sign_open(signed.signature + digest, key.data)
            return True
        found = Secp256k1Key.from_signature_and_message(signed.signature, digest, hasher=None)
        return bool(found.format(compressed=False)[1:] == key.data)
    except (BadSignatureError, Exception):  # coincurve raises a bare Exception on what it cannot recover
        return False


def check_delegate(signed: act.SignedDelegate, policy: NearPolicy, head: int, field: str = "signed_delegate") -> None:
    """Everything that needs only the delegate, the policy and the current height."""
    inner = signed.delegate
    check_signature(signed, field)
    if inner.max_block_height < head + policy.delegate_min_blocks_left:
        raise InvalidInput(
            f"{field}.max_block_height",
            f"is {inner.max_block_height}, the chain is at {head}: it expires before it can run; sign a new delegate",
        )
    check_delegate_policy(signed, policy, field)


def check_signature(signed: act.SignedDelegate, field: str = "signed_delegate") -> None:
    if not signature_holds(signed):
        key = signed.delegate.public_key
        raise InvalidInput(f"{field}.signature", f"is not a signature of {key} over this delegate action")


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
    for asked, value, limit in (
        (in_words(deposit), deposit, policy.delegate_max_deposit),
        (f"{gas} gas", gas, policy.delegate_max_gas),
        (f"{size} bytes", size, policy.delegate_max_bytes),
    ):
        if value > limit:
            raise PolicyRefused(f"{field}.actions", f"ask the relayer for {asked}; it pays at most {limit}")


def check_delegate_nonce(signed: act.SignedDelegate, key: KeyView | None, field: str = "signed_delegate") -> None:
    """What needs the user's access key. `None`: the chain has no such key."""
    inner = signed.delegate
    if key is None:
        raise InvalidInput(f"{field}.public_key", f"{inner.public_key} is not a key of {inner.sender_id}")
    if inner.nonce <= key.nonce:
        raise InvalidInput(
            f"{field}.nonce",
            f"is {inner.nonce}, the key is at {key.nonce}: this delegate ran already or was overtaken; sign a new one",
        )
    if inner.nonce >= key.height * 1_000_000:
        raise InvalidInput(f"{field}.nonce", f"is {inner.nonce}, beyond what the chain takes at height {key.height}")
    if key.permission is not None:
        check_call_permission(inner.receiver_id, inner.actions, key.permission, field)


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
