"""A drop-in for near-api-py's `Account`: the same methods and errors, but every transaction goes through the manager.

    account = Account(through(manager, loop), "relayers", "relayer.near", provider=provider)
    account.function_call("counter.near", "increment", {"by": 1}, idempotency_key="order-17")

Where a call has no `idempotency_key` it gets a new one, so a retry of it is a new transaction, as it was before;
`create_account` has the derived key of the account it creates. Views go to near-api-py's own provider.
"""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from txmanager.chains.near.names import PublicKey
from txmanager.core.errors import InvalidInput
from txmanager.core.models import Json, Outcome
from txmanager.core.states import Status

try:  # code that catches near-api-py's own errors goes on catching them
    from near_api.account import TransactionError, ViewFunctionError  # type: ignore[import-untyped]
except ImportError:

    class TransactionError(Exception):  # type: ignore[no-redef]
        """The transaction failed; its argument is the manager's error."""

    class ViewFunctionError(Exception):  # type: ignore[no-redef]
        """The view call failed."""


DEFAULT_ATTACHED_GAS = 100_000_000_000_000
Execute = Callable[[str, str, str, Mapping[str, Json]], Outcome]
"""(pool, idempotency key, kind, payload) to the final outcome; blocks until there is one."""


class Executes(Protocol):
    async def execute(
        self, pool: str, idempotency_key: str, *, kind: str, payload: Mapping[str, Json], timeout_s: float
    ) -> Outcome: ...


def through(manager: Executes, loop: asyncio.AbstractEventLoop, timeout_s: float = 60.0) -> Execute:
    """For threads beside the loop that the manager runs on."""

    def execute(pool: str, key: str, kind: str, payload: Mapping[str, Json]) -> Outcome:
        wanted = manager.execute(pool, key, kind=kind, payload=payload, timeout_s=timeout_s)
        return asyncio.run_coroutine_threadsafe(wanted, loop).result()

    return execute


class Account:
    def __init__(
        self,
        execute: Execute,
        pool: str,
        account_id: str,
        provider: Any = None,
        new_key: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._execute = execute
        self._pool = pool
        self._account_id = account_id
        self._provider = provider
        self._new_key = new_key
        self._state: Any = None

    @property
    def account_id(self) -> str:
        return self._account_id

    @property
    def signer(self) -> None:
        """Keys stay with the workers."""
        return None

    @property
    def provider(self) -> Any:
        if self._provider is None:
            raise InvalidInput("provider", "views need a near-api-py provider; pass provider=JsonProvider(url)")
        return self._provider

    @property
    def access_key(self) -> None:
        """Nonces are the manager's business."""
        return None

    @property
    def state(self) -> Any:
        if self._state is None:
            self.fetch_state()
        return self._state

    def fetch_state(self) -> None:
        self._state = self.provider.get_account(self._account_id)

    def send_money(self, account_id: str, amount: int, *, idempotency_key: str | None = None) -> dict[str, Any]:
        return self._run("near.transfer", {"receiver_id": account_id, "amount": str(amount)}, idempotency_key)

    def function_call(
        self,
        contract_id: str,
        method_name: str,
        args: Any,
        gas: int = DEFAULT_ATTACHED_GAS,
        amount: int = 0,
        *,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        call = _call(method_name, args, gas, amount)
        return self._run("near.function_call", {"contract_id": contract_id, **call}, idempotency_key)

    def create_account(
        self,
        account_id: str,
        public_key: bytes | str,
        initial_balance: int,
        *,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        key = _key(public_key)
        payload = {"new_account_id": account_id, "public_key": key, "initial_balance": str(initial_balance)}
        return self._run("near.create_account", payload, idempotency_key or f"create:{account_id}:{key}")

    def deploy_contract(self, contract_code: bytes, *, idempotency_key: str | None = None) -> dict[str, Any]:
        return self._transaction(self._account_id, [_deploy(contract_code)], idempotency_key)

    def stake(self, public_key: bytes | str, amount: int, *, idempotency_key: str | None = None) -> dict[str, Any]:
        action = {"type": "stake", "public_key": _key(public_key), "stake": str(amount)}
        return self._transaction(self._account_id, [action], idempotency_key)

    def create_and_deploy_contract(
        self,
        contract_id: str,
        public_key: bytes | str | None,
        contract_code: bytes,
        initial_balance: int,
        *,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        actions = [*_create(initial_balance), _deploy(contract_code), *_full_access(public_key)]
        return self._transaction(contract_id, actions, idempotency_key)

    def create_deploy_and_init_contract(
        self,
        contract_id: str,
        public_key: bytes | str | None,
        contract_code: bytes,
        initial_balance: int,
        args: Any,
        gas: int = DEFAULT_ATTACHED_GAS,
        init_method_name: str = "new",
        *,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        init = {"type": "function_call", **_call(init_method_name, args, gas, 0)}
        actions = [*_create(initial_balance), _deploy(contract_code), init, *_full_access(public_key)]
        return self._transaction(contract_id, actions, idempotency_key)

    def view_function(self, contract_id: str, method_name: str, args: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.provider.view_call(contract_id, method_name, json.dumps(args).encode())
        if "error" in result:
            raise ViewFunctionError(result["error"])
        result["result"] = json.loads(bytes(result["result"]))
        return result

    def _transaction(self, receiver_id: str, actions: list[dict[str, Any]], key: str | None) -> dict[str, Any]:
        return self._run("near.transaction", {"receiver_id": receiver_id, "actions": actions}, key)

    def _run(self, kind: str, payload: dict[str, Any], key: str | None) -> dict[str, Any]:
        outcome = self._execute(self._pool, key or self._new_key(), kind, payload)
        if outcome.status is not Status.DONE:
            raise TransactionError(dict(outcome.error or {"code": str(outcome.status)}))
        return _answer(outcome)


def _answer(outcome: Outcome) -> dict[str, Any]:
    """As much of near-api-py's answer as an outcome keeps: status, hash, logs, gas."""
    result = outcome.result or {}
    transaction_outcome = {
        "id": outcome.tx_hash,
        "block_hash": result.get("block_hash"),
        "outcome": {
            "logs": list(result.get("logs") or ()),
            "gas_burnt": int(result.get("gas_burnt") or 0),
            "tokens_burnt": result.get("tokens_burnt"),
            "status": {"SuccessValue": result.get("value_base64") or ""},
        },
    }
    return {
        "status": {"SuccessValue": result.get("value_base64") or ""},
        "transaction": {"hash": outcome.tx_hash, "nonce": outcome.nonce},
        "transaction_outcome": transaction_outcome,
        "receipts_outcome": [],
    }


def _key(public_key: bytes | str) -> str:
    if isinstance(public_key, bytes):
        if len(public_key) != 32:
            raise InvalidInput("public_key", "must be 32 bytes, or a string like ed25519:6E8s...")
        return str(PublicKey(0, public_key))
    return str(PublicKey.parse(public_key))


def _call(method_name: str, args: Any, gas: int, amount: int) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(args).encode()).decode()
    return {"method_name": method_name, "args_base64": encoded, "gas": str(gas), "deposit": str(amount)}


def _deploy(code: bytes) -> dict[str, Any]:
    return {"type": "deploy_contract", "code_base64": base64.b64encode(code).decode()}


def _create(balance: int) -> list[dict[str, Any]]:
    return [{"type": "create_account"}, {"type": "transfer", "amount": str(balance)}]


def _full_access(public_key: bytes | str | None) -> list[dict[str, Any]]:
    return [] if public_key is None else [{"type": "add_key", "public_key": _key(public_key)}]
