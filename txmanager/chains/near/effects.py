"""What a transaction does to the account that signs it. An effect that takes the account over needs the pool's word.

The chain lets only the account itself add and delete keys, deploy, stake, delete itself or empty a gas key; and a
contract's private methods are open to the account it runs on. So whatever is sent to the pool's own account counts,
except plain transfers, and an action that this release does not know counts, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from txmanager.chains.near import actions as act
from txmanager.chains.near.limits import attached_deposit
from txmanager.core.errors import OwnAccountRefused
from txmanager.core.kinds import UNLIMITED

NAMES: Mapping[type[act.Action], str] = {
    act.CreateAccount: "create_account",
    act.DeployContract: "deploy_contract",
    act.FunctionCall: "function_call",
    act.Transfer: "transfer",
    act.Stake: "stake",
    act.AddKey: "add_key",
    act.DeleteKey: "delete_key",
    act.DeleteAccount: "delete_account",
    act.TransferToGasKey: "transfer_to_gas_key",
    act.WithdrawFromGasKey: "withdraw_from_gas_key",
}
"""Actions as requests and settings name them."""
ACTION_NAMES = frozenset(NAMES.values())
HARMLESS = frozenset({"transfer", "create_account"})
"""On one's own account a transfer changes nothing, and a creation fails."""
OWN_ACCOUNT_EFFECTS = ACTION_NAMES - HARMLESS
OWNER_ONLY = OWN_ACCOUNT_EFFECTS - {"function_call", "transfer_to_gas_key"}
"""What anybody but the account itself cannot do: meant for our account, whatever receiver is written beside it."""


_NONE: frozenset[str] = frozenset()


def name_of(action: act.Action) -> str:
    return NAMES.get(type(action), type(action).__name__)


def own_effects(receiver_id: str, actions: Sequence[act.Action], account_id: str) -> frozenset[str]:
    """The effects on the signing account, by name; none for an ordinary transaction."""
    found: set[str] = set()
    for action in actions:
        if not isinstance(action, act.SignedDelegate):
            found.add(name_of(action))
        elif (inner := action.delegate).sender_id == account_id:
            found |= own_effects(inner.receiver_id, inner.actions, account_id)
    if receiver_id == account_id:
        return frozenset(found - HARMLESS)
    # An account that this transaction creates is its own owner until the end of it.
    return _NONE if isinstance(actions[0], act.CreateAccount) else OWNER_ONLY & found


def check_own_account(effects: frozenset[str], account_id: str, allowed: frozenset[str]) -> None:
    for name in sorted(effects - allowed):
        raise OwnAccountRefused(
            "actions",
            f"{name} acts on the pool's own account {account_id}".rstrip()
            + f'; the operator allows it with own_account = ["{name}"] in the pool\'s policy',
        )


def deposit_at_risk(actions: Sequence[act.Action]) -> int:
    """What limits are held against: the attached deposit, or more than any limit where an account is deleted, whose
    whole balance goes to somebody else."""
    inner = [a for s in actions if isinstance(s, act.SignedDelegate) for a in s.delegate.actions]
    if any(isinstance(action, act.DeleteAccount) for action in (*actions, *inner)):
        return UNLIMITED
    return attached_deposit(actions)


def receivers_of(receiver_id: str, actions: Sequence[act.Action]) -> frozenset[str]:
    """Everybody who gets something by the sender's word: also the heirs of accounts that are deleted."""
    heirs = [action.beneficiary_id for action in actions if isinstance(action, act.DeleteAccount)]
    return frozenset((receiver_id, *heirs))


def in_words(deposit: int) -> str:
    return "the whole balance (delete_account)" if deposit >= UNLIMITED else f"{deposit} yoctoNEAR"
