"""JSON-RPC over a `Network`: one request in, one answer out, or a `Wait` to poll after each block.

No I/O and no clock: who calls decides how long to wait. Every failure leaves as an `RpcError` that knows
its envelope and its HTTP status.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import block_views, calls, views
from . import params as read
from .errors import InvalidTx, Unknown
from .model import AccessKey, Account, Block, Tx
from .network import Network
from .params import FINALITIES, ParseError
from .status import Level, reached

MAX_LISTED_KEYS = 100
QUERIES = (
    "view_account",
    "view_code",
    "view_state",
    "view_access_key",
    "view_access_key_list",
    "view_gas_key_nonces",
    "call_function",
    "view_global_contract_code",
    "view_global_contract_code_by_account_id",
)


class RpcError(Exception):
    def __init__(
        self,
        cause: str,
        data: Any,
        *,
        info: Any = None,
        http: int = 200,
        name: str = "HANDLER_ERROR",
        code: int = -32000,
        message: str = "Server error",
    ) -> None:
        super().__init__(cause)
        self.http = http
        named_cause = {"name": cause} if info is None else {"info": info, "name": cause}
        self.body = {"name": name, "cause": named_cause, "code": code, "message": message, "data": data}


def parse_error(words: str) -> RpcError:
    return RpcError(
        "PARSE_ERROR",
        words,
        info={"error_message": words},
        http=400,
        name="REQUEST_VALIDATION_ERROR",
        code=-32700,
        message="Parse error",
    )


def internal_error(words: str) -> RpcError:
    return RpcError("INTERNAL_ERROR", words, info={"error_message": words}, http=500, name="INTERNAL_ERROR")


def timeout_error(cause: Any = "NOT_OBSERVED") -> RpcError:
    return RpcError("TIMEOUT_ERROR", "Timeout", info={"cause": cause}, http=408)


def untracked_error() -> RpcError:
    return RpcError("DOES_NOT_TRACK_SHARD", "Node doesn't track this shard")


def _invalid_tx(refusal: InvalidTx) -> RpcError:
    data = {"TxExecutionError": {"InvalidTxError": refusal.error}}
    return RpcError("INVALID_TRANSACTION", data, info={})


def _unknown_block(ref: int | bytes) -> RpcError:
    words = f"BLOCK HEIGHT: {ref}" if isinstance(ref, int) else f"BLOCK: {views.b58(ref)}"
    return RpcError("UNKNOWN_BLOCK", f"DB Not Found Error: {words} \n Cause: Unknown", info={})


@dataclass(slots=True, eq=False)
class Wait:
    """A request that is answered once a transaction is far enough along at its node."""

    node: int
    tx_hash: bytes
    level: Level
    receipts: bool
    tx: Tx | None = None


class Rpc:
    def __init__(self, network: Network) -> None:
        self.network = network
        self._methods: dict[str, Callable[[Any, int], Any]] = {
            "status": lambda _params, node: block_views.status_view(self.network, self.network.view(node)),
            "health": lambda _params, _node: None,
            "EXPERIMENTAL_protocol_config": lambda _params, _node: block_views.protocol_config_view(self.network),
            "block": self._block,
            "chunk": self._chunk,
            "gas_price": self._gas_price,
            "query": self._query,
            "broadcast_tx_async": self._broadcast_async,
            "broadcast_tx_commit": self._broadcast_commit,
            "send_tx": self._send_tx,
            "tx": lambda params, node: self._tx(params, node, receipts=False),
            "EXPERIMENTAL_tx_status": lambda params, node: self._tx(params, node, receipts=True),
        }
        self._queries: dict[str, Callable[[dict[str, Any], Block], Any]] = {
            "view_account": self._view_account,
            "view_access_key": self._view_access_key,
            "view_access_key_list": self._view_access_key_list,
            "view_gas_key_nonces": self._view_gas_key_nonces,
            "view_code": self._view_code,
            "call_function": self._call_function,
        }

    def call(self, method: str, params: Any, node: int = 0) -> Any:
        """The result, or a `Wait`. Raises `RpcError`."""
        handler = self._methods.get(method)
        if handler is None:
            raise RpcError(
                "METHOD_NOT_FOUND",
                method,
                info={"method_name": method},
                http=400,
                name="REQUEST_VALIDATION_ERROR",
                code=-32601,
                message="Method not found",
            )
        try:
            return handler(params, node)
        except ParseError as cause:
            raise parse_error(str(cause)) from None
        except InvalidTx as refusal:
            raise _invalid_tx(refusal) from None
        except Unknown as missing:
            if missing.what != "block":
                raise internal_error(str(missing)) from None
            raise _unknown_block(missing.key) from None

    def poll(self, wait: Wait) -> Any | None:
        """The answer to a waiting request, or None while there is none. Raises `RpcError`."""
        status = self.network.status(wait.tx_hash, wait.node)
        if status is not None and reached(wait.level, status.level):
            return views.tx_status_view(status, self.network, receipts=wait.receipts)
        if status is None and wait.tx is not None:
            try:
                self.network.check(wait.tx, wait.node, faults=False)
            except InvalidTx as refusal:
                raise _invalid_tx(refusal) from None  # it can no longer land: overtaken or expired
        if status is None and wait.level == "NONE":
            name = views.b58(wait.tx_hash)
            info = {"requested_transaction_hash": name}
            raise RpcError("UNKNOWN_TRANSACTION", f"Transaction {name} doesn't exist", info=info)
        return None

    def _answer(self, wait: Wait) -> Any:
        answer = self.poll(wait)
        return wait if answer is None else answer

    # transactions

    def _broadcast_async(self, params: Any, node: int) -> str:
        tx = read.signed_tx(read.named(params, "signed_tx_base64"))
        return views.b58(self.network.submit(tx, node))

    def _broadcast_commit(self, params: Any, node: int) -> Any:
        return self._send(read.signed_tx(read.named(params, "signed_tx_base64")), "EXECUTED_OPTIMISTIC", node)

    def _send_tx(self, params: Any, node: int) -> Any:
        params = read.named(params, "signed_tx_base64")
        return self._send(read.signed_tx(params), read.wait_until(params), node)

    def _send(self, tx: Tx, level: Level, node: int) -> Any:
        if level == "NONE":
            self.network.submit(tx, node)
            return {"final_execution_status": "NONE"}
        self.network.send(tx, node)
        return self._answer(Wait(node, tx.hash, level, receipts=False, tx=tx))

    def _tx(self, params: Any, node: int, *, receipts: bool) -> Any:
        params = read.named(params, "tx_hash", "sender_account_id")
        level = read.wait_until(params)
        if "signed_tx_base64" in params:
            tx = read.signed_tx(params)
            return self._answer(Wait(node, tx.hash, level, receipts, tx))
        read.account_id(params, "sender_account_id")
        try:
            digest = read.hash_of(params.get("tx_hash"), "tx_hash")
        except ParseError:
            words = "data did not match any variant of untagged enum TransactionInfo"
            raise ParseError(f"Failed parsing args: {words}") from None
        return self._answer(Wait(node, digest, level, receipts))

    # blocks

    def _block(self, params: Any, node: int) -> Any:
        return block_views.block_view(self._block_of(read.named(params, "block_id"), node), self.network)

    def _block_of(self, params: dict[str, Any], node: int) -> Block:
        if params.get("block_id") is not None:
            return self.network.block(read.block_id(params["block_id"]), node)
        if params.get("sync_checkpoint") is not None:
            return self.network.chain.blocks[0]
        finality = params.get("finality", "final")
        if finality not in FINALITIES:
            raise ParseError("Failed parsing args: unknown finality")
        return self.network.at(finality, node)

    def _chunk(self, params: Any, node: int) -> Any:
        params = read.named(params, "chunk_id")
        chunk_id = params.get("chunk_id")
        if isinstance(chunk_id, list) and len(chunk_id) == 2:
            params, chunk_id = {"block_id": chunk_id[0], "shard_id": chunk_id[1]}, None
        if chunk_id is None:
            if params.get("shard_id") != 0:
                info = {"shard_id": params.get("shard_id")}
                raise RpcError("INVALID_SHARD_ID", f"Shard id {params.get('shard_id')} does not exist", info=info)
            return block_views.chunk_view(self.network.block(read.block_id(params.get("block_id")), node), self.network)
        digest = read.hash_of(chunk_id, "chunk_id")
        try:
            found = block_views.chunk_view(self.network.chunk(digest, node), self.network)
            found["header"]["height_included"] = 0  # a chunk by itself does not know which block took it in
            return found
        except Unknown:
            name = views.b58(digest)
            raise RpcError("UNKNOWN_CHUNK", f"Chunk Missing: {name}", info={"chunk_hash": name}) from None

    def _gas_price(self, params: Any, node: int) -> Any:
        params = read.named(params, "block_id")
        if params.get("block_id") is not None:
            self.network.block(read.block_id(params["block_id"]), node)
        return {"gas_price": str(self.network.config.gas_price)}

    # queries

    def _query(self, params: Any, node: int) -> Any:
        if isinstance(params, list):
            raise ParseError("Failed parsing args: query by path is gone; use named params")
        params = read.named(params)
        query = self._queries.get(read.text(params, "request_type"))
        if query is None:
            known = ", ".join(f"`{name}`" for name in QUERIES)
            raise ParseError(
                f"Failed parsing args: unknown variant `{params['request_type'][:64]}`, expected one of {known}"
            )
        try:
            block = self._block_of(params, node)
        except Unknown as missing:
            words = f"BLOCK HEIGHT: {missing.key}" if isinstance(missing.key, int) else f"HEADER: {params['block_id']}"
            info = {"block_reference": {"block_id": params["block_id"]}}
            raise RpcError("UNKNOWN_BLOCK", f"DB Not Found Error: BLOCK {words}", info=info) from None
        answer = query(params, block)
        return {**answer, "block_height": block.height, "block_hash": views.b58(block.hash)}

    def _account(self, params: dict[str, Any], block: Block) -> tuple[str, Account]:
        account_id = read.account_id(params)
        account: Account | None = self.network.reader(block)((account_id,))
        if account is None:
            info = {"requested_account_id": account_id, **_at(block)}
            words = f"account {account_id} does not exist while viewing"
            raise RpcError("UNKNOWN_ACCOUNT", words, info=info)
        return account_id, account

    def _view_account(self, params: dict[str, Any], block: Block) -> Any:
        return views.account_view(self._account(params, block)[1])

    def _view_access_key(self, params: dict[str, Any], block: Block) -> Any:
        account_id, public_key = read.account_id(params), read.public_key(params)
        key: AccessKey | None = self.network.reader(block)((account_id, public_key))
        if key is None:
            # Not an error of the protocol: a result that says so. Clients must look.
            return {"error": f"access key {public_key} does not exist while viewing", "logs": []}
        return views.access_key_view(key)

    def _view_access_key_list(self, params: dict[str, Any], block: Block) -> Any:
        account_id = read.account_id(params)
        state = self.network.reader(block)
        account: Account | None = state((account_id,))
        keys = sorted(account.keys if account is not None else (), key=read.key_order)
        limit, after = params.get("limit"), params.get("after_key")
        if limit is None and after is None and len(keys) > MAX_LISTED_KEYS:
            info = {"requested_account_id": account_id, "limit": MAX_LISTED_KEYS, **_at(block)}
            words = f"Account {account_id} has more than {MAX_LISTED_KEYS} access keys"
            raise RpcError("TOO_MANY_ACCESS_KEYS", f"{words}; use a paginated view_access_key_list request", info=info)
        if after is not None:
            begin = read.key_order(read.public_key(params, "after_key"))
            keys = [key for key in keys if read.key_order(key) > begin]
        page = (
            keys[: min(read.count(params, "limit"), MAX_LISTED_KEYS)] if limit is not None else keys[:MAX_LISTED_KEYS]
        )
        listed = [
            {"public_key": views.listed_key(key), "access_key": views.access_key_view(state((account_id, key)))}
            for key in page
        ]
        return {"keys": listed, "last_key": views.listed_key(page[-1])} if len(page) < len(keys) else {"keys": listed}

    def _view_gas_key_nonces(self, params: dict[str, Any], block: Block) -> Any:
        account_id, public_key = read.account_id(params), read.public_key(params)
        state = self.network.reader(block)
        key: AccessKey | None = state((account_id, public_key))
        if key is None or key.gas_balance is None:
            info = {"public_key": public_key, **_at(block)}
            raise RpcError("UNKNOWN_GAS_KEY", f"gas key {public_key} does not exist while viewing", info=info)
        return {"nonces": [state((account_id, public_key, index)) for index in range(key.num_nonces)]}

    def _view_code(self, params: dict[str, Any], block: Block) -> Any:
        account_id, account = self._account(params, block)
        code: bytes | None = self.network.reader(block)((account_id, None, "#code"))
        if code is None:
            info = {"contract_account_id": account_id, **_at(block)}
            raise RpcError("NO_CONTRACT_CODE", f"contract code of {account_id} does not exist", info=info)
        return {"code_base64": base64.b64encode(code).decode(), "hash": views.b58(account.code_hash)}

    def _call_function(self, params: dict[str, Any], block: Block) -> Any:
        account_id, _ = self._account(params, block)
        method = read.text(params, "method_name")
        try:
            args = base64.b64decode(read.text(params, "args_base64"), validate=True)
        except binascii.Error:
            raise ParseError("Failed parsing args: args_base64 is not base64") from None
        try:
            value, logs = calls.view(self.network.reader(block), account_id, method, args)
        except ValueError as failure:
            return {"error": str(failure), "logs": []}
        return {"result": list(value), "logs": logs}


def _at(block: Block) -> dict[str, Any]:
    return {"block_height": block.height, "block_hash": views.b58(block.hash)}
