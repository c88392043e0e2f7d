"""Running one receipt: its actions in order, all or nothing, with gas, refunds and children.

A failed receipt changes no account; it still burns the gas it used, and its deposit travels back to its
predecessor. Every yocto that enters a receipt leaves it as a balance, a child, a refund or burnt gas.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from . import fees
from .actions import HANDLERS, Work
from .calls import call_function
from .config import Config
from .errors import ActionFailure
from .model import Account, FunctionCall, Receipt, Transfer
from .state import State
from .validate import storage_lack

SYSTEM = "system"
_HANDLERS: dict[type[Any], Callable[[Work, Any], None]] = {**HANDLERS, FunctionCall: call_function}


class Ran(NamedTuple):
    status: Any
    gas_burnt: int
    tokens_burnt: int
    children: list[Receipt]
    logs: tuple[str, ...]
    answered_by: bytes | None  # the child whose result stands for this receipt's
    lost: int = 0  # burnt, but no part of what the outcome says: a refund that nobody could take


def run(state: State, receipt: Receipt, height: int, config: Config) -> Ran:
    if receipt.refund:
        return _run_refund(state, receipt)
    mark = state.mark()
    work = Work(state, receipt, height)
    status: Any = None
    at = 0
    try:
        for at, action in enumerate(receipt.actions):  # noqa: B007, a failure names the action it stopped at
            work.gas_burnt += fees.exec_fee(action, receipt.receiver_id)
            work.value = work.answered_by = None
            _HANDLERS[type(action)](work, action)
        _check_storage(state, receipt.receiver_id)
    except ActionFailure as failure:
        state.revert(mark)
        work.gas_burnt += failure.gas_burnt
        status = {"Failure": {"ActionError": {"index": at, "kind": failure.kind}}}
        work.fail()

    children = work.children
    burnt = min(work.gas_burnt, receipt.gas)
    cost = burnt * config.gas_price
    if work.created:
        cost += fees.CREATION_CHARGE - fees.CREATE_EXEC * config.gas_price
    if status is None:
        status = _success(work)
    elif receipt.deposit:
        children.append(_refund(receipt, 1, receipt.predecessor_id, receipt.deposit))
    unspent = (receipt.gas - work.gas_given) * config.purchase_price - cost
    if unspent > 0:
        children.append(_refund(receipt, 2, receipt.signer_id, unspent, gas_key=receipt.gas_key))
    return Ran(status, burnt, cost + work.tokens_burnt, children, tuple(work.logs), work.answered_by)


def _success(work: Work) -> Any:
    if work.answered_by is not None:
        return {"SuccessReceiptId": work.answered_by}
    return {"SuccessValue": base64.b64encode(work.value or b"").decode()}


def _check_storage(state: State, account_id: str) -> None:
    account: Account | None = state.get((account_id,))
    lacking = storage_lack(account) if account is not None else 0
    if lacking:
        raise ActionFailure({"LackBalanceForState": {"account_id": account_id, "amount": str(lacking)}})


def _refund(receipt: Receipt, slot: int, to: str, amount: int, gas_key: str | None = None) -> Receipt:
    return Receipt(
        id=hashlib.sha256(receipt.id + b"refund" + bytes([slot])).digest(),
        tx_hash=receipt.tx_hash,
        predecessor_id=SYSTEM,
        receiver_id=to,
        signer_id=receipt.signer_id if slot == 2 else SYSTEM,
        signer_key=receipt.signer_key,
        actions=(Transfer(amount),),
        gas=0,
        deposit=amount,
        refund=True,
        gas_key=gas_key,
    )


def _run_refund(state: State, receipt: Receipt) -> Ran:
    """Refunds cost nothing. One whose account is gone is burnt, as nobody else may have it."""
    ok: Any = {"SuccessValue": ""}
    if receipt.gas_key is not None:
        where = (receipt.receiver_id, receipt.gas_key)
        key = state.get(where)
        if key is not None and key.gas_balance is not None:
            state.put(where, key._replace(gas_balance=key.gas_balance + receipt.deposit))
            return Ran(ok, fees.REFUND, 0, [], (), None)
    account: Account | None = state.get((receipt.receiver_id,))
    if account is None:
        kind = {"AccountDoesNotExist": {"account_id": receipt.receiver_id}}
        failed = {"Failure": {"ActionError": {"index": 0, "kind": kind}}}
        return Ran(failed, fees.REFUND, 0, [], (), None, lost=receipt.deposit)
    state.put((receipt.receiver_id,), account.holding(account.amount + receipt.deposit))
    key = state.get((receipt.signer_id, receipt.signer_key)) if receipt.signer_id == receipt.receiver_id else None
    if key is not None and key.permission is not None and key.permission.allowance is not None:
        # A gas refund also gives the function-call key its allowance back.
        permission = key.permission._replace(allowance=key.permission.allowance + receipt.deposit)
        state.put((receipt.signer_id, receipt.signer_key), key._replace(permission=permission))
    return Ran(ok, fees.REFUND, 0, [], (), None)
