"""What the protocol refuses whatever the state: checked before a nonce is spent, so that it fails the intent alone."""

from __future__ import annotations

from collections.abc import Sequence

from txmanager.chains.near.actions import (
    MAX_ACTIONS,
    Action,
    AddKey,
    CallPermission,
    DeleteAccount,
    DeployContract,
    FunctionCall,
    SignedDelegate,
    Transfer,
    TransferToGasKey,
)
from txmanager.chains.near.borsh import U64_MAX, U128_MAX
from txmanager.chains.near.names import check_account
from txmanager.core.errors import InvalidInput

TGAS = 10**12
MAX_TRANSACTION_BYTES = 1_572_864
MAX_PREPAID_GAS = 1_000 * TGAS
MAX_METHOD_NAME = 256
MAX_METHOD_NAMES_BYTES = 2_000
MAX_ARGS = 4_194_304
MAX_CODE = 4_194_304
MAX_GAS_KEY_NONCES = 1_024
_YOCTO = "must be 0 to 2^128-1 yoctoNEAR"
_PAYING = (Transfer, FunctionCall, TransferToGasKey)
_FRAME_BYTES = 64 + 4 + 65 + 11 + 32 + 2 + 66
"""Upper bound of everything in a signed transaction but the receiver and the actions."""
_REQUEST_BYTES = 256
"""Upper bound of everything in a request but the transaction."""


def check_actions(actions: Sequence[Action], field: str = "actions") -> None:
    if not actions:
        raise InvalidInput(field, "must hold at least one action")
    if len(actions) > MAX_ACTIONS:
        raise InvalidInput(field, f"at most {MAX_ACTIONS} actions fit into one transaction, not {len(actions)}")
    gas = 0
    for index, action in enumerate(actions):
        where = f"{field}[{index}]"
        if isinstance(action, FunctionCall):
            _check_call(action, where)
            gas += action.gas
        elif isinstance(action, SignedDelegate):
            if len([a for a in actions if isinstance(a, SignedDelegate)]) > 1:
                raise InvalidInput(field, "at most one delegate fits into a transaction")
            check_actions(action.delegate.actions, f"{where}.actions")
            gas += attached_gas(action.delegate.actions)
        elif isinstance(action, DeleteAccount) and index != len(actions) - 1:
            raise InvalidInput(where, "delete_account must be the last action")
        else:
            _check_action(action, where)
    if gas > MAX_PREPAID_GAS:
        raise InvalidInput(field, f"attach {gas} gas in total, more than the limit of {MAX_PREPAID_GAS}")


def check_size(receiver: bytes, encoded_actions: bytes, limit: int = MAX_TRANSACTION_BYTES) -> None:
    size = _FRAME_BYTES + len(receiver) + len(encoded_actions)
    if size > limit:
        why = "" if limit == MAX_TRANSACTION_BYTES else f" over HTTP ({MAX_TRANSACTION_BYTES} in the protocol)"
        raise InvalidInput("actions", f"make a transaction of {size} bytes; the limit is {limit}{why}")


def most_over_http(max_request_bytes: int) -> int:
    """The largest transaction that fits into one JSON-RPC request, where it stands as base64."""
    return min(MAX_TRANSACTION_BYTES, max(0, max_request_bytes - _REQUEST_BYTES) // 4 * 3)


def attached_gas(actions: Sequence[Action]) -> int:
    return sum([a.gas for a in actions if isinstance(a, FunctionCall)])


def attached_deposit(actions: Sequence[Action]) -> int:
    """Tokens that travel with the actions; a relayer pays those of what it relays, too."""
    total = 0
    for action in actions:
        if isinstance(action, _PAYING):
            total += action.deposit
        elif isinstance(action, SignedDelegate):
            total += attached_deposit(action.delegate.actions)
    return total


def _check_call(action: FunctionCall, where: str) -> None:
    if not 0 <= action.deposit <= U128_MAX:
        raise InvalidInput(f"{where}.deposit", _YOCTO)
    if not 1 <= len(action.method_name.encode()) <= MAX_METHOD_NAME:
        raise InvalidInput(f"{where}.method_name", f"must have 1 to {MAX_METHOD_NAME} bytes")
    if len(action.args) > MAX_ARGS:
        raise InvalidInput(f"{where}.args", f"have {len(action.args)} bytes; the limit is {MAX_ARGS}")
    if not 1 <= action.gas <= U64_MAX:
        raise InvalidInput(f"{where}.gas", "must be at least 1; 30000000000000 (30 Tgas) is usual")


def _check_action(action: Action, where: str) -> None:
    for name in ("deposit", "stake", "amount", "gas_balance"):
        if not 0 <= getattr(action, name, 0) <= U128_MAX:
            raise InvalidInput(f"{where}.{name}", _YOCTO)
    match action:
        case DeployContract():
            if len(action.code) > MAX_CODE:
                raise InvalidInput(f"{where}.code", f"has {len(action.code)} bytes; the limit is {MAX_CODE}")
        case AddKey():
            _check_add_key(action, where)
        case DeleteAccount():
            check_account(f"{where}.beneficiary_id", action.beneficiary_id)


def _check_add_key(action: AddKey, where: str) -> None:
    if action.permission is not None:
        _check_permission(action.permission, where)
    if action.num_nonces is None:
        return
    if not 1 <= action.num_nonces <= MAX_GAS_KEY_NONCES:
        raise InvalidInput(f"{where}.num_nonces", f"must be 1 to {MAX_GAS_KEY_NONCES}")
    if action.gas_balance != 0:
        raise InvalidInput(f"{where}.gas_balance", "must be 0; fund the key with transfer_to_gas_key")
    if action.permission is not None and action.permission.allowance is not None:
        raise InvalidInput(f"{where}.allowance", "a gas key has no allowance: its own balance plays that part")


def _check_permission(permission: CallPermission, where: str) -> None:
    check_account(f"{where}.receiver_id", permission.receiver_id)
    if permission.allowance is not None and not 0 <= permission.allowance <= U128_MAX:
        raise InvalidInput(f"{where}.allowance", "must be 0 to 2^128-1 yoctoNEAR")
    sizes = [len(name.encode()) for name in permission.method_names]
    if any(not 1 <= size <= MAX_METHOD_NAME for size in sizes):
        raise InvalidInput(f"{where}.method_names", f"each name must have 1 to {MAX_METHOD_NAME} bytes")
    if sum(sizes) + len(sizes) > MAX_METHOD_NAMES_BYTES:
        raise InvalidInput(f"{where}.method_names", f"have more than {MAX_METHOD_NAMES_BYTES} bytes together")
