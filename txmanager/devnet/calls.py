"""Calling the built-in contracts, in a receipt or as a free view.

A call pays `CONTRACT_GAS` plus the gas and deposits of what it sends; running out of either fails it
in the protocol's own words. A panic undoes everything the call wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson

from . import fees
from .actions import Work, sendable
from .contracts import Panic, Promised, contract_of, is_view
from .errors import ActionFailure
from .model import Account, Action, FunctionCall, Receipt
from .state import Key


def call_function(work: Work, action: FunctionCall) -> None:
    account = work.account()
    contract_id = work.receipt.receiver_id
    work.set_account(account.holding(account.amount + action.deposit))
    burn = min(fees.CONTRACT_GAS, action.gas)
    method = _resolve(account, contract_id, action.method_name)
    if action.gas < fees.CONTRACT_GAS:
        raise _execution_error("Exceeded the prepaid gas.", burn)
    call = _LiveCall(work, action)
    try:
        value = method(call, _arguments(action.args))
    except Panic as panic:
        work.logs += call.logs
        raise _execution_error(f"Smart contract panicked: {panic}", burn) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        work.logs += call.logs
        words = "Smart contract panicked: Failed to deserialize input from JSON."
        raise _execution_error(words, burn) from None
    work.logs += call.logs
    call.settle(burn)
    work.gas_burnt += burn
    if value is not Promised:
        work.value = b"" if value is None else _written(value)
        work.answered_by = None


def _written(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()


def _resolve(account: Account, contract_id: str, method_name: str) -> Callable[..., Any]:
    if account.code_hash == bytes(32):
        missing = {"CodeDoesNotExist": {"account_id": contract_id}}
        raise ActionFailure({"FunctionCallError": {"CompilationError": missing}})
    method = (contract_of(account.code_hash) or {}).get(method_name)
    if method is None:
        raise ActionFailure({"FunctionCallError": {"MethodResolveError": "MethodNotFound"}})
    return method


def _arguments(raw: bytes) -> dict[str, Any]:
    args = orjson.loads(raw) if raw else {}
    if not isinstance(args, dict):
        raise ValueError("arguments are an object")
    return args


def _execution_error(words: str, burn: int) -> ActionFailure:
    return ActionFailure({"FunctionCallError": {"ExecutionError": words}}, burn)


class _LiveCall:
    def __init__(self, work: Work, action: FunctionCall) -> None:
        self._work = work
        self._action = action
        self._spent = 0
        self._sent_fees = 0
        self.logs: list[str] = []
        self.contract_id = work.receipt.receiver_id
        self.predecessor_id = work.receipt.predecessor_id
        self.deposit = action.deposit
        awaited = work.receipt.input
        self.promise_failed = isinstance(awaited, dict) and "Failure" in awaited

    def read(self, key: str) -> Any:
        return self._work.state.get((self.contract_id, None, key))

    def write(self, key: str, value: Any) -> None:
        self._work.state.put((self.contract_id, None, key), value)

    def log(self, line: str) -> None:
        self.logs.append(line)

    def batch(self, receiver_id: str, actions: tuple[Action, ...]) -> None:
        self._send(receiver_id, actions)

    def batch_then(self, receiver_id: str, actions: tuple[Action, ...], then: FunctionCall) -> None:
        first = self._send(receiver_id, actions)
        callback = self._send(self.contract_id, (then,))
        first.output_to = callback.id
        callback.waits_for = first.id
        self._work.answered_by = callback.id

    def _send(self, receiver_id: str, actions: tuple[Action, ...]) -> Receipt:
        if not sendable(receiver_id, actions):
            raise Panic("The promise is not valid")
        work = self._work
        child = work.send(self.contract_id, receiver_id, actions)
        account = work.account()
        if account.amount < child.deposit:
            raise Panic("Exceeded the account balance.")
        work.set_account(account.holding(account.amount - child.deposit))
        self._spent += child.gas
        self._sent_fees += fees.tx_gas(actions, self.contract_id, receiver_id)
        return child

    def settle(self, burn: int) -> None:
        """Sent receipts are paid from the call's own gas, fees for sending them burnt at once."""
        if burn + self._spent + self._sent_fees > self._action.gas:
            raise _execution_error("Exceeded the prepaid gas.", self._action.gas)
        self._work.gas_burnt += self._sent_fees


class _ViewCall:
    predecessor_id = "system"
    deposit = 0
    promise_failed = False

    def __init__(self, contract_id: str, read: Callable[[Key], Any]) -> None:
        self.contract_id = contract_id
        self._read = read
        self.logs: list[str] = []

    def read(self, key: str) -> Any:
        return self._read((self.contract_id, None, key))

    def write(self, key: str, value: Any) -> None:
        raise AssertionError("views are resolved to methods that do not write")

    def log(self, line: str) -> None:
        self.logs.append(line)

    def batch(self, receiver_id: str, actions: tuple[Action, ...]) -> None:
        raise AssertionError("views send nothing")

    def batch_then(self, receiver_id: str, actions: tuple[Action, ...], then: FunctionCall) -> None:
        raise AssertionError("views send nothing")


def view(read: Callable[[Key], Any], account_id: str, method_name: str, args: bytes) -> tuple[bytes, list[str]]:
    """The answer and the logs of a view call, or ValueError with the node's words."""
    account: Account = read((account_id,))
    if account.code_hash == bytes(32):
        error = f'CompilationError(CodeDoesNotExist {{ account_id: "{account_id}" }})'
        raise ValueError(f"wasm execution failed with error: {error}")
    method = (contract_of(account.code_hash) or {}).get(method_name)
    if method is None:
        raise ValueError("wasm execution failed with error: MethodResolveError(MethodNotFound)")
    if not is_view(account.code_hash, method_name):
        raise ValueError(
            f'wasm execution failed with error: HostError(ProhibitedInView {{ method_name: "{method_name}" }})'
        )
    call = _ViewCall(account_id, read)
    try:
        value = method(call, _arguments(args))
    except (KeyError, TypeError, ValueError, AttributeError):
        panic = "Smart contract panicked: Failed to deserialize input from JSON."
        raise ValueError(
            f'wasm execution failed with error: HostError(GuestPanic {{ panic_msg: "{panic}" }})'
        ) from None
    return json.dumps(value, separators=(",", ":")).encode(), call.logs
