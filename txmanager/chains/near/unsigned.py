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
    transaction = read_unsigned(unsigned)
    if str(transaction.public_key) != public_key:
        raise InvalidInput("unsigned", f"is a transaction of the key {transaction.public_key}")
    check_actions(transaction.actions)
    index = "" if transaction.nonce_index is None else f"{transaction.nonce_index}:"
    return Effects(
        slot=f"{index}{transaction.nonce}",
        receivers=_receivers(transaction),
        actions=_actions(transaction),
        methods=frozenset(_methods(transaction.actions)),
        own_account=own_effects(transaction.receiver_id, transaction.actions, transaction.account_id),
        value=deposit_at_risk(transaction.actions),
        fee=worst_cost(transaction.actions, PURCHASE_PRICE).fee,
        least_fee=0,
        account=transaction.account_id,
    )


def _receivers(transaction: Read) -> frozenset[str]:
    delegates = [a.delegate for a in transaction.actions if isinstance(a, act.SignedDelegate)]
    found: frozenset[str] = frozenset()
    # A transaction of nothing but a delegate only carries it to its sender.
    if len(delegates) < len(transaction.actions):
        found = receivers_beside(transaction.receiver_id, transaction.actions)
    for inner in delegates:
        found |= receivers_beside(inner.receiver_id, inner.actions)
    return found - {transaction.account_id}


def _actions(transaction: Read) -> frozenset[str]:
    names = {DELEGATE if isinstance(a, act.SignedDelegate) else name_of(a) for a in transaction.actions}
    # We pay for what a delegate holds: wrapping an action must not make it another one.
    inner = {name_of(a) for s in transaction.actions if isinstance(s, act.SignedDelegate) for a in s.delegate.actions}
    if isinstance(transaction.actions[0], act.CreateAccount) and transaction.receiver_id != transaction.account_id:
        names -= {"add_key"}  # the first key of the account that this transaction creates
    elif transaction.receiver_id == transaction.account_id:
        names -= {"transfer"}  # to itself: a no-op
    return frozenset(
        (names | inner) - own_effects(transaction.receiver_id, transaction.actions, transaction.account_id)
    )


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
