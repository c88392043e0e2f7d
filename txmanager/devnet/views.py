"""The protocol's JSON: how accounts, keys, blocks, transactions and outcomes look on the wire.

Shapes are nearcore's, the odd ones included: nonces and gas are numbers, money is strings, unit variants
are bare strings, and a delegate's inner actions are spelled unlike a transaction's own.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import base58

from . import fees, model
from .model import AccessKey, Account, Block, Outcome, Permission, Receipt, Tx
from .network import Network, TxStatus, View
from .status import top_status
from .validate import PROTOCOL_VERSION

JSON = dict[str, Any]
_ZERO_HASH = "1" * 32
_NO_SIGNATURE = "ed25519:" + "1" * 64
_VERSION = {"version": "2.13.0-txmanager-devnet", "build": "devnet", "commit": "devnet", "rustc_version": ""}


@lru_cache(maxsize=16_384)
def b58(raw: bytes) -> str:
    return base58.b58encode(raw).decode()


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def permission_view(key: AccessKey | model.AddKey) -> Any:
    call = key.permission
    balance = key.gas_balance if isinstance(key, AccessKey) else key.balance
    gas_key = key.gas_balance is not None if isinstance(key, AccessKey) else key.num_nonces is not None
    told = _call_permission(call) if call is not None else {}
    if gas_key:
        told = {"balance": str(balance), "num_nonces": key.num_nonces, **told}
        return {"GasKeyFullAccess" if call is None else "GasKeyFunctionCall": told}
    return "FullAccess" if call is None else {"FunctionCall": told}


def _call_permission(call: Permission) -> JSON:
    allowance = None if call.allowance is None else str(call.allowance)
    return {"allowance": allowance, "receiver_id": call.receiver_id, "method_names": list(call.method_names)}


def access_key_view(key: AccessKey) -> JSON:
    return {"nonce": key.nonce, "permission": permission_view(key)}


def account_view(account: Account) -> JSON:
    return {
        "amount": str(account.amount),
        "locked": str(account.locked),
        "code_hash": b58(account.code_hash),
        "storage_usage": account.storage_usage,
        "storage_paid_at": 0,
    }


def action_view(action: model.Action) -> Any:
    if isinstance(action, model.CreateAccount):
        return "CreateAccount"
    if isinstance(action, model.Delegate):
        inner = {
            "sender_id": action.sender_id,
            "receiver_id": action.receiver_id,
            "actions": [_inner_action_view(a) for a in action.actions],
            "nonce": action.nonce,
            "max_block_height": action.max_block_height,
            "public_key": action.public_key,
        }
        return {"Delegate": {"delegate_action": inner, "signature": action.signature}}
    if isinstance(action, model.Unsupported):
        return action.view
    return {type(action).__name__: _payload(action)}


def _inner_action_view(action: model.Action) -> Any:
    # Inside a delegate, nearcore prints the action itself, not its view.
    if isinstance(action, model.DeployContract):
        return {"DeployContract": {"code": _b64(action.code)}}
    view = action_view(action)
    return {view: {}} if isinstance(view, str) else view


def _payload(action: model.Action) -> JSON:
    match action:
        case model.FunctionCall(method_name, args, gas, deposit):
            return {"method_name": method_name, "args": _b64(args), "gas": gas, "deposit": str(deposit)}
        case model.Transfer(deposit):
            return {"deposit": str(deposit)}
        case model.DeployContract(code):
            return {"code": _b64(hashlib.sha256(code).digest())}
        case model.AddKey(public_key):
            key = {"nonce": action.nonce, "permission": permission_view(action)}
            return {"public_key": public_key, "access_key": key}
        case model.DeleteKey(public_key):
            return {"public_key": public_key}
        case model.DeleteAccount(beneficiary_id):
            return {"beneficiary_id": beneficiary_id}
        case model.TransferToGasKey(public_key, deposit):
            return {"public_key": public_key, "deposit": str(deposit)}
        case model.WithdrawFromGasKey(public_key, amount):
            return {"public_key": public_key, "amount": str(amount)}
    raise AssertionError(f"no view for {type(action).__name__}")


def tx_view(tx: Tx) -> JSON:
    view: JSON = {
        "signer_id": tx.signer_id,
        "public_key": tx.public_key,
        "nonce": tx.nonce,
        "receiver_id": tx.receiver_id,
        "actions": [action_view(action) for action in tx.actions],
        "priority_fee": 0,
        "signature": tx.public_key.partition(":")[0] + ":" + b58(tx.signature),
        "hash": b58(tx.hash),
    }
    if tx.version == 1:
        view["nonce_mode"] = "strict" if tx.strict else "monotonic"
        if tx.nonce_index is not None:
            view["nonce_index"] = tx.nonce_index
    return view


def _status_view(status: Any) -> Any:
    if isinstance(status, dict) and "SuccessReceiptId" in status:
        return {"SuccessReceiptId": b58(status["SuccessReceiptId"])}
    return status


def outcome_view(outcome: Outcome) -> JSON:
    metadata: JSON = {"version": 1, "gas_profile": None}
    if outcome.receipt is not None:
        metadata = {"version": 3, "gas_profile": []}
    return {
        "proof": [],
        "block_hash": b58(outcome.block_hash),
        "id": b58(outcome.id),
        "outcome": {
            "logs": list(outcome.logs),
            "receipt_ids": [b58(receipt_id) for receipt_id in outcome.receipt_ids],
            "gas_burnt": outcome.gas_burnt,
            "tokens_burnt": str(outcome.tokens_burnt),
            "executor_id": outcome.executor_id,
            "status": _status_view(outcome.status),
            "metadata": metadata,
        },
    }


def receipt_view(receipt: Receipt, gas_price: int) -> JSON:
    waits_for, output_to = receipt.waits_for, receipt.output_to
    action = {
        "signer_id": receipt.signer_id,
        "signer_public_key": receipt.signer_key,
        "gas_price": str(gas_price),
        # The one datum between two receipts is named by the sender's id, reversed.
        "output_data_receivers": [] if output_to is None else [_data_receiver(receipt)],
        "input_data_ids": [] if waits_for is None else [b58(waits_for[::-1])],
        "actions": [action_view(a) for a in receipt.actions],
        "is_promise_yield": False,
    }
    return {
        "predecessor_id": receipt.predecessor_id,
        "receiver_id": receipt.receiver_id,
        "receipt_id": b58(receipt.id),
        "receipt": {"Action": action},
        "priority": 0,
    }


def _data_receiver(receipt: Receipt) -> JSON:
    return {"data_id": b58(receipt.id[::-1]), "receiver_id": receipt.predecessor_id}


def tx_status_view(status: TxStatus, network: Network, *, receipts: bool = False) -> JSON:
    """A transaction with every outcome this node has seen, parents before their children."""
    record, head = status.record, status.view.head.height
    seen = {outcome.id: outcome for outcome in record.outcomes if outcome.height <= head}
    ordered: list[Outcome] = []
    stack = list(reversed(record.outcomes[0].receipt_ids))
    while stack:
        outcome = seen.get(stack.pop())
        if outcome is not None:
            ordered.append(outcome)
            stack.extend(reversed(outcome.receipt_ids))
    view: JSON = {
        "final_execution_status": status.level,
        "status": top_status(record, head),
        "transaction": tx_view(record.tx),
        "transaction_outcome": outcome_view(record.outcomes[0]),
        "receipts_outcome": [outcome_view(outcome) for outcome in ordered],
    }
    if receipts:
        price = network.config.gas_price
        view["receipts"] = [receipt_view(o.receipt, price) for o in ordered if o.receipt is not None]
    return view


def _producer(block: Block) -> str:
    return f"node{block.producer}"


def chunk_header_view(block: Block, network: Network) -> JSON:
    return {
        "chunk_hash": b58(block.chunk_hash),
        "prev_block_hash": b58(block.prev_hash),
        "outcome_root": _ZERO_HASH,
        "prev_state_root": b58(block.prev_hash),
        "encoded_merkle_root": b58(block.hash),
        "encoded_length": sum(tx.size for tx in block.txs),
        "height_created": block.height,
        "height_included": block.height,
        "shard_id": 0,
        "gas_used": block.gas_used,
        "gas_limit": network.config.receipt_gas_limit,
        "rent_paid": "0",
        "validator_reward": "0",
        "balance_burnt": str(block.burnt),
        "outgoing_receipts_root": _ZERO_HASH,
        "tx_root": b58(block.hash) if block.txs else _ZERO_HASH,
        "validator_proposals": [],
        "signature": _NO_SIGNATURE,
    }


def chunk_view(block: Block, network: Network) -> JSON:
    price = network.config.gas_price
    return {
        "author": _producer(block),
        "header": chunk_header_view(block, network),
        "transactions": [tx_view(tx) for tx in block.txs],
        "receipts": [receipt_view(receipt, price) for receipt in block.receipts],
    }


def block_view(block: Block, network: Network) -> JSON:
    chain = network.chain
    before = chain.by_hash.get(block.prev_hash, block)
    final = chain.by_hash.get(before.prev_hash, before)
    genesis = b58(chain.genesis.hash)
    header = {
        "height": block.height,
        "prev_height": block.prev_height,
        "hash": b58(block.hash),
        "prev_hash": b58(block.prev_hash),
        "epoch_id": genesis,
        "next_epoch_id": genesis,
        "prev_state_root": b58(block.prev_hash),
        "chunk_receipts_root": _ZERO_HASH,
        "chunk_headers_root": b58(block.chunk_hash),
        "chunk_tx_root": b58(block.hash) if block.txs else _ZERO_HASH,
        "outcome_root": _ZERO_HASH,
        "chunks_included": 1,
        "challenges_root": _ZERO_HASH,
        "timestamp": int(block.timestamp_ms * 1_000_000),
        "timestamp_nanosec": str(int(block.timestamp_ms * 1_000_000)),
        "random_value": b58(block.hash),
        "validator_proposals": [],
        "chunk_mask": [True],
        "gas_price": str(network.config.gas_price),
        "block_ordinal": block.height - chain.genesis.height + 1,
        "rent_paid": "0",
        "validator_reward": "0",
        "total_supply": str(block.supply),
        "challenges_result": [],
        "last_final_block": b58(final.hash),
        "last_ds_final_block": b58(before.hash),
        "next_bp_hash": genesis,
        "block_merkle_root": b58(block.hash),
        "epoch_sync_data_hash": None,
        "approvals": [],
        "signature": _NO_SIGNATURE,
        "latest_protocol_version": PROTOCOL_VERSION,
    }
    return {"author": _producer(block), "header": header, "chunks": [chunk_header_view(block, network)]}


def _time(block: Block) -> str:
    return datetime.fromtimestamp(block.timestamp_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def status_view(network: Network, view: View) -> JSON:
    head, oldest = view.head, network.chain.blocks[0]
    genesis = b58(network.chain.genesis.hash)
    return {
        "version": _VERSION,
        "chain_id": network.config.chain_id,
        "genesis_hash": genesis,
        "protocol_version": PROTOCOL_VERSION,
        "latest_protocol_version": PROTOCOL_VERSION,
        "rpc_addr": "127.0.0.1",
        "validators": [{"account_id": f"node{i}"} for i in range(network.config.producers)],
        "sync_info": {
            "latest_block_hash": b58(head.hash),
            "latest_block_height": head.height,
            "latest_state_root": b58(head.prev_hash),
            "latest_block_time": _time(head),
            "syncing": False,
            "earliest_block_hash": b58(oldest.hash),
            "earliest_block_height": oldest.height,
            "earliest_block_time": _time(oldest),
            "epoch_id": genesis,
            "epoch_start_height": network.chain.genesis.height,
        },
        "validator_account_id": None,
        "validator_public_key": None,
        "node_public_key": "ed25519:" + b58(network.chain.genesis.hash),
        "node_key": None,
        "uptime_sec": int((network.now - oldest.timestamp_ms) / 1000),
    }


def protocol_config_view(network: Network) -> JSON:
    """The part of the protocol's configuration that holds here; the rest is left out, not invented."""
    config, chain = network.config, network.chain
    return {
        "protocol_version": PROTOCOL_VERSION,
        "chain_id": config.chain_id,
        "genesis_height": chain.genesis.height,
        "transaction_validity_period": config.validity,
        "gas_limit": config.receipt_gas_limit,
        "min_gas_price": str(config.gas_price),
        "max_gas_price": str(config.gas_price),
        "runtime_config": {"storage_amount_per_byte": str(fees.STORAGE_PRICE)},
    }
