"""The built-in contracts: the root account's `create_account`, an FT (NEP-141), a counter.

A contract is a table of Python methods, found by the hash of the code deployed on an account, so that
`DeployContract` with one of `CODE`'s byte strings works. Other code deploys and answers "MethodNotFound".
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any, Protocol

from .fees import TGAS
from .model import Action, AddKey, CreateAccount, DeployContract, FunctionCall, Permission, Transfer
from .validate import is_account_id


class Call(Protocol):
    """What a method sees of the chain. `batch` and `batch_then` send receipts."""

    contract_id: str
    predecessor_id: str
    deposit: int
    promise_failed: bool

    def read(self, key: str) -> Any: ...
    def write(self, key: str, value: Any) -> None: ...
    def log(self, line: str) -> None: ...
    def batch(self, receiver_id: str, actions: tuple[Action, ...]) -> None: ...
    def batch_then(self, receiver_id: str, actions: tuple[Action, ...], then: FunctionCall) -> None: ...


Method = Callable[[Call, dict[str, Any]], Any]

CODE = {name: b"txmanager-devnet-contract:" + name.encode() for name in ("root", "ft", "counter")}
CALLBACK_GAS = 10 * TGAS
STORAGE_DEPOSIT = 1_250_000_000_000_000_000_000
FT_SUPPLY = 10**9 * 10**24


class Panic(Exception):
    """The contract stopped itself; the caller gets its words."""


class Promised:
    """Returned by a method whose answer is its callback's."""


def contract_of(code_hash: bytes) -> dict[str, Method] | None:
    return _BY_HASH.get(code_hash)


def is_view(code_hash: bytes, method: str) -> bool:
    return method in _VIEWS and code_hash in _BY_HASH


# root: what `near` and `testnet` run


def _create_account(call: Call, args: dict[str, Any]) -> Any:
    actions: tuple[Action, ...] = (CreateAccount(), AddKey(str(args["new_public_key"])))
    return _create(call, args, actions)


def _create_account_advanced(call: Call, args: dict[str, Any]) -> Any:
    options = args["options"]
    actions: list[Action] = [CreateAccount()]
    actions += [AddKey(str(key)) for key in options.get("full_access_keys") or ()]
    for limited in options.get("limited_access_keys") or ():
        names = str(limited.get("method_names") or "")
        permission = Permission(
            str(limited["receiver_id"]),
            tuple(name.strip() for name in names.split(",") if name.strip()),
            int(limited["allowance"]),
        )
        actions.append(AddKey(str(limited["public_key"]), permission))
    if options.get("contract_bytes"):
        actions.append(DeployContract(bytes(options["contract_bytes"])))
    return _create(call, args, tuple(actions))


def _create(call: Call, args: dict[str, Any], actions: tuple[Action, ...]) -> Any:
    new_account_id = str(args["new_account_id"])
    if not is_account_id(new_account_id):
        raise Panic("Invalid account id")
    callback_args = {"predecessor_account_id": call.predecessor_id, "amount": str(call.deposit)}
    then = FunctionCall("on_account_created", json.dumps(callback_args).encode(), CALLBACK_GAS)
    call.batch_then(new_account_id, (*actions, Transfer(call.deposit)), then)
    return Promised


def _on_account_created(call: Call, args: dict[str, Any]) -> bool:
    if call.predecessor_id != call.contract_id:
        raise Panic("Callback can only be called from the contract")
    if not call.promise_failed:
        return True
    # The deposit came back to this contract with the failed receipt; hand it on.
    call.batch(str(args["predecessor_account_id"]), (Transfer(int(args["amount"])),))
    return False


# ft: enough of NEP-141 and NEP-145 for wallets and relayers


def _balances(account_id: str) -> str:
    return f"b:{account_id}"


def _ft_transfer(call: Call, args: dict[str, Any]) -> None:
    if call.deposit != 1:
        raise Panic("Requires attached deposit of exactly 1 yoctoNEAR")
    receiver_id, amount = str(args["receiver_id"]), int(args["amount"])
    sender_id = call.predecessor_id
    if sender_id == receiver_id:
        raise Panic("Sender and receiver should be different")
    if amount <= 0:
        raise Panic("The amount should be a positive number")
    balance = _registered(call, sender_id)
    if balance < amount:
        raise Panic("The account doesn't have enough balance")
    received = _registered(call, receiver_id)
    call.write(_balances(sender_id), balance - amount)
    call.write(_balances(receiver_id), received + amount)
    event = {"old_owner_id": sender_id, "new_owner_id": receiver_id, "amount": str(amount)}
    if args.get("memo") is not None:
        event["memo"] = str(args["memo"])
    message = {"standard": "nep141", "version": "1.0.0", "event": "ft_transfer", "data": [event]}
    call.log("EVENT_JSON:" + json.dumps(message, separators=(",", ":")))


def _registered(call: Call, account_id: str) -> int:
    balance = call.read(_balances(account_id))
    if balance is None:
        raise Panic(f"The account {account_id} is not registered")
    return int(balance)


def _storage_deposit(call: Call, args: dict[str, Any]) -> dict[str, str]:
    account_id = str(args.get("account_id") or call.predecessor_id)
    spare = call.deposit
    if call.read(_balances(account_id)) is None:
        if call.deposit < STORAGE_DEPOSIT:
            raise Panic("The attached deposit is less than the minimum storage balance")
        call.write(_balances(account_id), 0)
        spare -= STORAGE_DEPOSIT
    if spare:
        call.batch(call.predecessor_id, (Transfer(spare),))
    return {"total": str(STORAGE_DEPOSIT), "available": "0"}


def _ft_balance_of(call: Call, args: dict[str, Any]) -> str:
    return str(call.read(_balances(str(args["account_id"]))) or 0)


def _storage_balance_of(call: Call, args: dict[str, Any]) -> dict[str, str] | None:
    if call.read(_balances(str(args["account_id"]))) is None:
        return None
    return {"total": str(STORAGE_DEPOSIT), "available": "0"}


def _ft_metadata(_call: Call, _args: dict[str, Any]) -> dict[str, Any]:
    return {
        "spec": "ft-1.0.0",
        "name": "Devnet token",
        "symbol": "DEV",
        "icon": None,
        "reference": None,
        "reference_hash": None,
        "decimals": 24,
    }


# counter: one number, a method that always fails, one that says what it is told


def _add(step: int) -> Method:
    def add(call: Call, args: dict[str, Any]) -> int:
        value = int(call.read("n") or 0) + step * int(args.get("by", 1))
        call.write("n", value)
        call.log(f"counter is {value}")
        return value

    return add


def _reset(call: Call, _args: dict[str, Any]) -> None:
    call.write("n", 0)


def _fail(_call: Call, args: dict[str, Any]) -> None:
    raise Panic(str(args.get("message", "asked to fail")))


def _echo(call: Call, args: dict[str, Any]) -> bytes:
    """Whatever bytes the caller likes, and as many words as it likes: a contract's answer is its own business."""
    for _ in range(int(args.get("logs", 0))):
        call.log(str(args.get("log", "")))
    return base64.b64decode(str(args.get("value_base64", "")), validate=True)


def _count(call: Call, _args: dict[str, Any]) -> int:
    return int(call.read("n") or 0)


_CONTRACTS: dict[str, dict[str, Method]] = {
    "root": {
        "create_account": _create_account,
        "create_account_advanced": _create_account_advanced,
        "on_account_created": _on_account_created,
    },
    "ft": {
        "ft_transfer": _ft_transfer,
        "storage_deposit": _storage_deposit,
        "ft_balance_of": _ft_balance_of,
        "ft_total_supply": lambda _call, _args: str(FT_SUPPLY),
        "ft_metadata": _ft_metadata,
        "storage_balance_of": _storage_balance_of,
        "storage_balance_bounds": lambda _c, _a: {"min": str(STORAGE_DEPOSIT), "max": str(STORAGE_DEPOSIT)},
    },
    "counter": {
        "increment": _add(1),
        "decrement": _add(-1),
        "reset": _reset,
        "fail": _fail,
        "echo": _echo,
        "get_num": _count,
        "get_count": _count,
    },
}
_VIEWS = frozenset(
    {"ft_balance_of", "ft_total_supply", "ft_metadata", "storage_balance_of", "storage_balance_bounds"}
    | {"get_num", "get_count"}
)
_BY_HASH = {hashlib.sha256(CODE[name]).digest(): table for name, table in _CONTRACTS.items()}
