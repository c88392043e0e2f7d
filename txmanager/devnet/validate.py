"""May this transaction enter the chain? The checks of a node, in the protocol's order.

Pure: reads state through a callable, writes nothing, and answers what the transaction would cost.
The upper bound of a nonce is checked by chunk producers alone, so it has its own function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from . import fees
from .config import Config
from .errors import InvalidTx
from .model import (
    AccessKey,
    Account,
    Action,
    AddKey,
    Delegate,
    DeleteAccount,
    DeployContract,
    FunctionCall,
    Permission,
    Tx,
    Unsupported,
    WithdrawFromGasKey,
)
from .state import Key

Reader = Callable[[Key], Any]

PROTOCOL_VERSION = 87
_ACCOUNT_ID = re.compile(r"(([a-z\d]+[-_])*[a-z\d]+\.)*([a-z\d]+[-_])*[a-z\d]+")
_seen_ids: set[str] = set()


class Charge(NamedTuple):
    """The signer's account and key as they stand before the charge, and the two parts of the price."""

    account: Account
    key: AccessKey
    gas_cost: int
    deposit: int


def is_account_id(account_id: str) -> bool:
    if account_id in _seen_ids:
        return True
    if not 2 <= len(account_id) <= 64 or _ACCOUNT_ID.fullmatch(account_id) is None:
        return False
    if len(_seen_ids) < 100_000:
        _seen_ids.add(account_id)
    return True


def bad_account_id(value: str) -> str:
    """Why it is none, in a node's words."""
    if not 2 <= len(value) <= 64:
        return f'invalid value: "{value[:80]}", the Account ID is too {"short" if len(value) < 2 else "long"}'
    for index, character in enumerate(value):
        if character not in "abcdefghijklmnopqrstuvwxyz0123456789-_.":
            found = f"an invalid character '{character}' at index {index}"
            return f'invalid value: "{value}", the Account ID contains {found}'
    return f'invalid value: "{value}", the Account ID has a redundant separator'


def is_implicit(account_id: str) -> bool:
    return len(account_id) == 64 and all(c in "0123456789abcdef" for c in account_id)


def check_shape(tx: Tx) -> None:
    """What the bytes alone decide: ids, actions, size, signature."""
    if not is_account_id(tx.signer_id):
        raise InvalidTx({"InvalidSignerId": {"signer_id": tx.signer_id}})
    if not is_account_id(tx.receiver_id):
        raise InvalidTx({"InvalidReceiverId": {"receiver_id": tx.receiver_id}})
    check_actions(tx.actions)
    if tx.size > fees.MAX_TX_SIZE:
        raise InvalidTx({"TransactionSizeExceeded": {"size": tx.size, "limit": fees.MAX_TX_SIZE}})
    if tx.valid_signature is None:
        from .wire import verify

        tx.valid_signature = verify(tx)
    if not tx.valid_signature:
        raise InvalidTx("InvalidSignature")


def check_actions(actions: tuple[Action, ...], *, delegated: bool = False) -> None:
    if len(actions) > fees.MAX_ACTIONS:
        over = {"total_number_of_actions": len(actions), "limit": fees.MAX_ACTIONS}
        raise _invalid({"TotalNumberOfActionsExceeded": over})
    gas = 0
    delegates = 0
    for index, action in enumerate(actions):
        if type(action) is FunctionCall:
            gas += action.gas
            _check_call(action)
        elif isinstance(action, Delegate):
            delegates += 1
            if delegates > 1:
                raise _invalid("DelegateActionMustBeOnlyOne")
            check_actions(action.actions, delegated=True)
            gas += sum(a.gas for a in action.actions if isinstance(a, FunctionCall))
        elif isinstance(action, AddKey):
            _check_add_key(action)
        elif isinstance(action, DeleteAccount):
            _check_delete(action, last=index == len(actions) - 1)
        elif isinstance(action, DeployContract) and len(action.code) > fees.MAX_CODE:
            raise _invalid({"ContractSizeExceeded": {"size": len(action.code), "limit": fees.MAX_CODE}})
        elif isinstance(action, WithdrawFromGasKey) and delegated:
            raise _invalid("WithdrawFromGasKeyNotAllowedInDelegate")
        elif isinstance(action, Unsupported):
            feature = {"protocol_feature": action.name, "version": PROTOCOL_VERSION}
            raise _invalid({"UnsupportedProtocolFeature": feature})
    if gas > fees.MAX_PREPAID_GAS:
        over = {"total_prepaid_gas": gas, "limit": fees.MAX_PREPAID_GAS}
        raise _invalid({"TotalPrepaidGasExceeded": over})


def _check_call(call: FunctionCall) -> None:
    if call.gas == 0:
        raise _invalid("FunctionCallZeroAttachedGas")
    if not call.method_name:
        raise _invalid("FunctionCallEmptyMethodName")
    if len(call.method_name) > fees.MAX_METHOD_NAME:
        over = {"length": len(call.method_name), "limit": fees.MAX_METHOD_NAME}
        raise _invalid({"FunctionCallMethodNameLengthExceeded": over})
    if len(call.args) > fees.MAX_ARGS:
        over = {"length": len(call.args), "limit": fees.MAX_ARGS}
        raise _invalid({"FunctionCallArgumentsLengthExceeded": over})


def _check_delete(action: DeleteAccount, *, last: bool) -> None:
    if not last:
        raise _invalid("DeleteActionMustBeFinal")
    if not is_account_id(action.beneficiary_id):
        raise _invalid({"InvalidAccountId": {"account_id": action.beneficiary_id}})


def _check_add_key(action: AddKey) -> None:
    if action.permission is not None:
        size = sum(len(name) + 1 for name in action.permission.method_names)
        if size > fees.MAX_METHOD_NAMES_BYTES:
            over = {"total_number_of_bytes": size, "limit": fees.MAX_METHOD_NAMES_BYTES}
            raise _invalid({"AddKeyMethodNamesNumberOfBytesExceeded": over})
    if action.num_nonces is None:
        return
    if not 0 < action.num_nonces <= fees.MAX_GAS_KEY_NONCES:
        over = {"requested_nonces": action.num_nonces, "limit": fees.MAX_GAS_KEY_NONCES}
        raise _invalid({"GasKeyInvalidNumNonces": over})
    if action.balance:
        raise _invalid({"AddGasKeyWithNonZeroBalance": {"balance": str(action.balance)}})
    if action.permission is not None and action.permission.allowance is not None:
        raise _invalid("GasKeyFunctionCallAllowanceNotAllowed")


def _invalid(error: Any) -> InvalidTx:
    return InvalidTx({"ActionsValidation": error})


def check_signer(get: Reader, tx: Tx, config: Config) -> Charge:
    """Signer, key, nonce, balance, allowance, permission, against one state."""
    account: Account | None = get((tx.signer_id,))
    if account is None:
        raise InvalidTx({"SignerDoesNotExist": {"signer_id": tx.signer_id}})
    key: AccessKey | None = get((tx.signer_id, tx.public_key))
    if key is None:
        missing = {"account_id": tx.signer_id, "public_key": tx.public_key}
        raise InvalidTx({"InvalidAccessKeyError": {"AccessKeyNotFound": missing}})
    current = current_nonce(get, tx, key)
    if tx.nonce <= current or (tx.strict and tx.nonce != current + 1):
        raise InvalidTx({"InvalidNonce": {"tx_nonce": tx.nonce, "ak_nonce": current}})

    sent = fees.tx_gas(tx.actions, tx.signer_id, tx.receiver_id, tx.public_key)
    carried = fees.receipt_gas(tx.actions, tx.receiver_id)
    gas_cost = sent * config.gas_price + carried * config.purchase_price
    deposit = fees.deposit_of(tx.actions)
    _check_balance(tx, account, key, gas_cost, deposit)
    if key.permission is not None:
        refusal = forbidden(key.permission, tx.receiver_id, tx.actions)
        if refusal is not None:
            raise InvalidTx({"InvalidAccessKeyError": refusal})
    return Charge(account, key, gas_cost, deposit)


def current_nonce(get: Reader, tx: Tx, key: AccessKey) -> int:
    if key.gas_balance is None and tx.nonce_index is None:
        return key.nonce
    if tx.nonce_index is None or tx.nonce_index >= key.num_nonces:
        details = {"tx_nonce_index": tx.nonce_index, "num_nonces": key.num_nonces}
        raise InvalidTx({"InvalidNonceIndex": details})
    return int(get((tx.signer_id, tx.public_key, tx.nonce_index)))


def _check_balance(tx: Tx, account: Account, key: AccessKey, gas_cost: int, deposit: int) -> None:
    cost = deposit if key.gas_balance is not None else gas_cost + deposit
    if key.gas_balance is not None and key.gas_balance < gas_cost:
        raise InvalidTx({"NotEnoughGasKeyBalance": _lack(tx.signer_id, key.gas_balance, gas_cost)})
    if account.amount < cost:
        lack: dict[str, Any] = _lack(tx.signer_id, account.amount, cost)
        if key.gas_balance is None:
            raise InvalidTx({"NotEnoughBalance": lack})
        raise InvalidTx({"NotEnoughBalanceForDeposit": {**lack, "reason": "NotEnoughBalance"}})
    permission = key.permission
    if permission is not None and permission.allowance is not None and permission.allowance < cost:
        short = {
            "account_id": tx.signer_id,
            "public_key": tx.public_key,
            "allowance": str(permission.allowance),
            "cost": str(cost),
        }
        raise InvalidTx({"InvalidAccessKeyError": {"NotEnoughAllowance": short}})
    lacking = storage_lack(account.holding(account.amount - cost))
    if lacking:
        raise InvalidTx({"LackBalanceForState": {"signer_id": tx.signer_id, "amount": str(lacking)}})


def _lack(signer_id: str, balance: int, cost: int) -> dict[str, str]:
    return {"signer_id": signer_id, "balance": str(balance), "cost": str(cost)}


def storage_lack(account: Account) -> int:
    """How many yocto the account lacks to pay for its storage; small accounts pay nothing."""
    if account.storage_usage <= fees.FREE_STORAGE:
        return 0
    return max(0, account.storage_usage * fees.STORAGE_PRICE - account.amount - account.locked)


def forbidden(permission: Permission, receiver_id: str, actions: tuple[Action, ...]) -> Any:
    """Why a function-call key may not sign this, or None."""
    call = actions[0] if len(actions) == 1 else None
    if not isinstance(call, FunctionCall):
        return "RequiresFullAccess"
    if call.deposit > 0:
        return "DepositWithFunctionCall"
    if receiver_id != permission.receiver_id:
        return {"ReceiverMismatch": {"tx_receiver": receiver_id, "ak_receiver": permission.receiver_id}}
    if permission.method_names and call.method_name not in permission.method_names:
        return {"MethodNameMismatch": {"method_name": call.method_name}}
    return None


def check_upper_bound(tx: Tx, height: int) -> None:
    bound = height * fees.NONCE_RANGE
    if tx.nonce >= bound:
        raise InvalidTx({"NonceTooLarge": {"tx_nonce": tx.nonce, "upper_bound": bound}})
