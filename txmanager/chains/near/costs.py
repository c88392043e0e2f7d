"""What a transaction may take at worst, before any refund: the balance a node wants to see before it lets it in.

Gas is bought ahead at the network's purchase price, which is ten times the price it burns at on today's mainnet, and
what is not burnt comes back later. The fees below are the protocol's, sending and running together, rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.chains.near.actions import (
    Action,
    AddKey,
    CreateAccount,
    DeleteAccount,
    DeleteKey,
    DeployContract,
    FunctionCall,
    SignedDelegate,
    Stake,
    Transfer,
    TransferToGasKey,
    WithdrawFromGasKey,
)
from txmanager.chains.near.effects import deposit_at_risk, in_words
from txmanager.chains.near.limits import TGAS, attached_deposit, attached_gas
from txmanager.chains.near.names import ML_DSA_65
from txmanager.chains.near.policy import KeyView
from txmanager.chains.near.views import AccountView
from txmanager.core.errors import PolicyRefused
from txmanager.core.funds import Cost, Funds, Purse
from txmanager.core.values import value

GGAS = 10**9
PURCHASE_PRICE = 10**9
"""yoctoNEAR per unit of gas where nobody says: `min_gas_purchase_price` of mainnet."""
STORAGE_PRICE = 10**19
"""yoctoNEAR that stay locked for each byte an account uses."""
FREE_BYTES = 770
"""An account this small needs no balance."""

USUAL_GAS = 300 * TGAS
"""What callers attach at most, as a rule; more than this is nothing that every lane has to have funds for."""

_CREATE_RUNS = 7_200 * GGAS
_RECEIPT = 217 * GGAS
_FLAT: Mapping[type, int] = {
    CreateAccount: 7_700 * GGAS,
    DeployContract: 370 * GGAS,
    FunctionCall: 980 * GGAS,
    Transfer: 231 * GGAS,
    Stake: 245 * GGAS,
    AddKey: 210 * GGAS,
    DeleteKey: 190 * GGAS,
    DeleteAccount: 295 * GGAS,
    TransferToGasKey: 370 * GGAS,
    WithdrawFromGasKey: 370 * GGAS,
    SignedDelegate: 400 * GGAS,
}
_ML_DSA_CHECK = 100 * GGAS
_CALL_BYTE, _DEPLOY_BYTE, _KEY_BYTE, _KEY_NONCE = 50_000_000, 130_000_000, 50_000_000, 80 * GGAS


@value(frozen=True, slots=True)
class Prices:
    """What the protocol asks for, as its configuration tells it."""

    gas: int = PURCHASE_PRICE
    """yoctoNEAR that a unit of gas is bought for."""
    creation: int = 0
    """yoctoNEAR that creating an account costs instead of the gas it runs with."""


def worst_cost(actions: Sequence[Action], price: int, creation: int = 0) -> Cost:
    """The charge for creating an account is taken from what its gas was bought with; what it is dearer comes on top."""
    gas = _fees(actions) + attached_gas(actions)
    dearer = _creations(actions) * max(0, creation - _CREATE_RUNS * price) if creation else 0
    return Cost(gas * price + dearer, attached_deposit(actions), min(gas, USUAL_GAS) * price + dearer)


def _creations(actions: Sequence[Action]) -> int:
    inner = [a for s in actions if isinstance(s, SignedDelegate) for a in s.delegate.actions]
    return sum(isinstance(action, CreateAccount) for action in (*actions, *inner))


def cost_at_risk(actions: Sequence[Action]) -> int:
    """What max_cost is held against: everything that can leave the account, gas at the price it is bought at. No node
    is asked, so the answer is the same before acceptance and at every signature."""
    return (_fees(actions) + attached_gas(actions)) * PURCHASE_PRICE + deposit_at_risk(actions)


def check_cost(actions: Sequence[Action], limit: int) -> None:
    if (cost := cost_at_risk(actions)) > limit:
        raise PolicyRefused("max_cost", f"it costs {in_words(cost)} with gas; {limit} is allowed")


def _fees(actions: Sequence[Action]) -> int:
    gas = _RECEIPT
    for action in actions:
        gas += _FLAT[type(action)]
        match action:
            case FunctionCall():
                gas += (len(action.args) + len(action.method_name)) * _CALL_BYTE
            case DeployContract():
                gas += len(action.code) * _DEPLOY_BYTE
            case AddKey():
                names = action.permission.method_names if action.permission is not None else ()
                gas += sum(len(name) + 1 for name in names) * _KEY_BYTE + (action.num_nonces or 0) * _KEY_NONCE
            case SignedDelegate():
                # Its actions are sent twice: to the relayed account, and from there to their receiver.
                gas += 2 * _fees(action.delegate.actions) + attached_gas(action.delegate.actions)
                gas += _ML_DSA_CHECK if action.curve == ML_DSA_65 else 0
    return gas


def stake_for_storage(used_bytes: int, locked: int) -> int:
    """What an account cannot spend because its storage is paid with it; staked tokens pay for storage, too."""
    return max(0, used_bytes * STORAGE_PRICE - locked) if used_bytes > FREE_BYTES else 0


def read_funds(key: KeyView, account: AccountView | None) -> Funds | None:
    """A gas key pays fees from its own balance; an allowance and the account pay together."""
    if account is None:
        return None
    free = max(0, account.amount - stake_for_storage(account.used_bytes, account.locked))
    purses = [Purse("account", free, fees=key.gas_balance is None)]
    if key.gas_balance is not None:
        purses.append(Purse("gas_key", key.gas_balance, deposits=False))
    elif key.allowance is not None:
        purses.append(Purse("allowance", key.allowance, deposits=False))
    return Funds(tuple(purses), account.height, refunds=True)


def read_prices(config: Mapping[str, Any]) -> Prices:
    runtime = config.get("runtime_config")
    charge = str(runtime.get("account_creation_charge", "")) if isinstance(runtime, Mapping) else ""
    known = charge.isascii() and charge.isdigit() and len(charge) <= 39
    return Prices(purchase_price(config), int(charge) if known else 0)


def lowest(prices: Sequence[Prices]) -> Prices:
    """Of what several nodes say. What is too low, a node refuses later; what is too high would stop a lane."""
    return Prices(min(p.gas for p in prices), min(p.creation for p in prices))


def purchase_price(config: Mapping[str, Any]) -> int:
    """What a unit of gas is bought for, as the protocol's configuration tells it; before there was a price to buy at,
    it was bought at the price it burns at."""
    runtime = config.get("runtime_config")
    parts = (config, runtime if isinstance(runtime, Mapping) else {})
    for name in ("min_gas_purchase_price", "min_gas_price"):
        for part in parts:
            price = str(part.get(name, ""))
            if price.isascii() and price.isdigit() and len(price) <= 39:
                return int(price)
    return PURCHASE_PRICE
