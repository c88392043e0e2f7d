"""What unsigned bytes do, for a signer that reads what it signs. Nothing here asks a node.

A delegate is judged by what it makes us pay for: its own receiver, actions, methods and deposits. What it does to its
sender's account is the sender's word.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from txmanager.chains.near import actions as act
from txmanager.chains.near.costs import PURCHASE_PRICE, worst_cost
from txmanager.chains.near.effects import ACTION_NAMES, OWN_ACCOUNT_EFFECTS, deposit_at_risk, name_of, own_effects
from txmanager.chains.near.effects import receivers_of as receivers_beside
from txmanager.chains.near.limits import MAX_TRANSACTION_BYTES, check_actions
from txmanager.chains.near.names import check_account
from txmanager.chains.near.transaction import Read, read_unsigned
from txmanager.core.errors import InvalidInput
from txmanager.core.signing_policy import Effects
from txmanager.settings.family import SignerSide

DELEGATE = "delegate"


def read_effects(unsigned: bytes, public_key: str) -> Effects:
    if len(unsigned) > MAX_TRANSACTION_BYTES:  # before it is read: reading takes time by its size, and others wait
        raise InvalidInput("unsigned", f"has {len(unsigned)} bytes; nodes take {MAX_TRANSACTION_BYTES}")
    told = read_unsigned(unsigned)
    if str(told.public_key) != public_key:
        raise InvalidInput("unsigned", f"is a transaction of the key {told.public_key}")
    check_actions(told.actions)
    index = "" if told.nonce_index is None else f"{told.nonce_index}:"
    return Effects(
        slot=f"{index}{told.nonce}",
        receivers=_receivers(told),
        actions=_actions(told),
        methods=frozenset(_methods(told.actions)),
        own_account=own_effects(told.receiver_id, told.actions, told.account_id),
        value=deposit_at_risk(told.actions),
        fee=worst_cost(told.actions, PURCHASE_PRICE).fee,
        least_fee=0,
        account=told.account_id,
    )


def _receivers(told: Read) -> frozenset[str]:
    delegates = [a.delegate for a in told.actions if isinstance(a, act.SignedDelegate)]
    found: frozenset[str] = frozenset()
    if len(delegates) < len(told.actions):  # a transaction of nothing but a delegate only carries it to its sender
        found = receivers_beside(told.receiver_id, told.actions)
    for inner in delegates:
        found |= receivers_beside(inner.receiver_id, inner.actions)
    return found - {told.account_id}


def _actions(told: Read) -> frozenset[str]:
    names = {DELEGATE if isinstance(a, act.SignedDelegate) else name_of(a) for a in told.actions}
    # We pay for what a delegate holds: wrapping an action must not make it another one.
    inner = {name_of(a) for s in told.actions if isinstance(s, act.SignedDelegate) for a in s.delegate.actions}
    if isinstance(told.actions[0], act.CreateAccount) and told.receiver_id != told.account_id:
        names -= {"add_key"}  # the first key of the account that this transaction creates
    elif told.receiver_id == told.account_id:
        names -= {"transfer"}  # to itself: a no-op
    return frozenset((names | inner) - own_effects(told.receiver_id, told.actions, told.account_id))


def _methods(actions: Iterable[act.Action]) -> Iterable[str]:
    for action in actions:
        if isinstance(action, act.FunctionCall):
            yield action.method_name
        elif isinstance(action, act.SignedDelegate):
            yield from _methods(action.delegate.actions)


def _receiver(entry: str) -> str:
    check_account("receivers", entry.removeprefix("*."))
    return entry


SIGNER_SIDE = SignerSide(
    curve="ed25519",
    digest=lambda unsigned: sha256(unsigned).digest(),
    read=read_effects,
    receiver=_receiver,
    method=lambda entry: entry,
    actions=ACTION_NAMES | {DELEGATE},
    usual=frozenset({"function_call", "transfer", "create_account", DELEGATE}),
    own_account=OWN_ACCOUNT_EFFECTS,
    names="account",
)
