"""A drop-in for web3.py: `send_transaction` and `contract.functions.x().transact()` go through txmanager.

    w3 = Web3(HTTPProvider(node))
    w3.middleware_onion.inject(through_txmanager(Client(url, pool="payouts")), layer=0)
    with idempotency_key("order-42"):
        hash = w3.eth.send_transaction({"to": bob, "value": 1})
    w3.eth.wait_for_transaction_receipt(hash)

Nonces, fees and signatures are the lanes'. A hash that was replaced at a better price still finds its receipt. Without
a key each call is an intent of its own, as it would be with any node. Needs web3 7.6 or later, which txmanager itself
does not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from web3.middleware import Web3Middleware

from txmanager.client.blocking import Client
from txmanager.client.errors import ClientError
from txmanager.client.models import Record

_key: ContextVar[str | None] = ContextVar("txmanager_idempotency_key", default=None)
_TAKEN = {"to": "to", "value": "value", "data": "data", "input": "data", "gas": "gas"}
_DROPPED = {"from", "chainId", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "type", "accessList"}
_BY_HASH = ("eth_getTransactionReceipt", "eth_getTransactionByHash")
_SIMULATED = ("eth_estimateGas", "eth_call")
Request = Callable[[Any, Any], Any]


@contextmanager
def idempotency_key(key: str) -> Iterator[None]:
    """What is sent inside has this key: sent twice, even from two processes, it happens once."""
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)


def through_txmanager(client: Client, *, pool: str | None = None, timeout_s: float = 60.0) -> Callable[[Any], Any]:
    """A middleware for `w3.middleware_onion.inject(..., layer=0)`, of `Web3` as of `AsyncWeb3`. `timeout_s`: how long a
    send waits for its transaction to be signed."""
    sent = SentHashes(client, pool, timeout_s)

    def build(w3: Any) -> TxManagerMiddleware:
        return TxManagerMiddleware(w3, sent)

    return build


class SentHashes:
    """Which hash belongs to which intent, for as long as this process lives."""

    def __init__(self, client: Client, pool: str | None, timeout_s: float) -> None:
        self._client = client
        self._pool = pool
        self._timeout_s = timeout_s
        self._keys: dict[str, str] = {}
        self._addresses: list[str] = []

    def addresses(self) -> list[str]:
        if not self._addresses:
            lanes = [lane.lane for lane in self._client.lanes(pool=self._pool)]
            self._addresses = [lane.rpartition(":")[2] for lane in lanes if lane.startswith("evm:")]
        return self._addresses

    def send(self, transaction: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON-RPC answer to eth_sendTransaction: a hash as soon as one is signed and written ahead."""
        unknown = set(transaction) - set(_TAKEN) - _DROPPED
        if unknown:
            return _error(f"txmanager decides on {', '.join(sorted(unknown))}; leave it out of the transaction")
        key = _key.get() or str(uuid4())
        payload = {_TAKEN[name]: value for name, value in transaction.items() if name in _TAKEN}
        try:
            if "from" in transaction and transaction["from"].lower() not in self.addresses():
                return _error(f"{transaction['from']} is not an address of the pool: {', '.join(self.addresses())}")
            record = self._client.submit("evm.transaction", payload, key=key, pool=self._pool)
            until = time.monotonic() + self._timeout_s
            while not record.tx_hash and not record.final and time.monotonic() < until:
                time.sleep(0.02)
                record = self._client.get(key, pool=self._pool)
        except ClientError as error:
            return _error(str(error))
        self._keys |= {attempt.tx_hash: key for attempt in record.attempts}
        if record.tx_hash:
            return {"jsonrpc": "2.0", "id": 0, "result": record.tx_hash}
        return _ended(record) or _error(f"accepted as {key}, but not signed within {self._timeout_s:g} s; it will be")

    def landed(self, hash: str) -> tuple[str | None, dict[str, Any] | None]:
        """(the hash to ask the node for, or an answer to give instead) for one that was handed out here."""
        key = self._keys.get(hash)
        if key is None:
            return hash, None
        try:
            record = self._client.get(key, pool=self._pool)
        except ClientError as error:
            return None, _error(str(error))
        return record.tx_hash or hash, None if record.tx_hash else _ended(record)


class TxManagerMiddleware(Web3Middleware):
    def __init__(self, w3: Any, sent: SentHashes) -> None:
        super().__init__(w3)
        self._sent = sent

    def wrap_make_request(self, make_request: Request) -> Request:
        def middleware(method: Any, params: Any) -> Any:
            params, answer = self._turn(str(method), params)
            return make_request(method, params) if answer is None else answer

        return middleware

    async def async_wrap_make_request(self, make_request: Request) -> Request:
        async def middleware(method: Any, params: Any) -> Any:
            # The client blocks: its calls stay off the event loop. The context carries the idempotency key along.
            params, answer = await asyncio.to_thread(self._turn, str(method), params)
            return await make_request(method, params) if answer is None else answer

        return middleware

    def _turn(self, method: str, params: Any) -> tuple[Any, Any]:
        """(params to go on with, None), or (anything, the answer)."""
        if method == "eth_sendTransaction":
            return params, self._sent.send(params[0])
        if method == "eth_accounts":
            return params, {"jsonrpc": "2.0", "id": 0, "result": self._sent.addresses()}
        if method in _BY_HASH:
            hash, answer = self._sent.landed(str(params[0]))
            return [hash], answer
        if method in _SIMULATED and isinstance(params[0], Mapping) and "from" not in params[0]:
            senders = self._sent.addresses()
            if senders:
                return [{**params[0], "from": senders[0]}, *params[1:]], None
        return params, None


def _error(message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 0, "error": {"code": -32000, "message": message}}


def _ended(record: Record) -> dict[str, Any] | None:
    """A JSON-RPC error for an intent that ended without a transaction."""
    if not record.final:
        return None
    error = record.error or {}
    answer = _error(f"{record.idempotency_key} ended {record.status}: {error.get('message', 'no transaction landed')}")
    if "data" in error:
        answer["error"] |= {"code": 3, "data": error["data"]}
    return answer
