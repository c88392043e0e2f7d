"""The protocol's JSON: how accounts, keys, transactions and outcomes look on the wire.

Shapes are nearcore's, the odd ones included: nonces and gas are numbers, money is strings, unit variants
are bare strings, and a delegate's inner actions are spelled unlike a transaction's own.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import Any

import base58

from . import model
from .model import AccessKey, Account, Outcome, Permission, Receipt, Tx
from .network import Network, TxStatus
from .status import top_status

JSON = dict[str, Any]
_HASH_DOMAIN = b"near:ml-dsa-65-pubkey-hash:v1"


@lru_cache(maxsize=16_384)
def b58(raw: bytes) -> str:
    return base58.b58encode(raw).decode()


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def listed_key(public_key: str) -> str:
    """A key as lists show it: a post-quantum one is so long that they show its hash."""
    curve, _, data = public_key.partition(":")
    if curve != "ml-dsa-65":
        return public_key
    return "ml-dsa-65-hash:" + b58(hashlib.sha3_256(_HASH_DOMAIN + base58.b58decode(data)).digest())


def permission_view(key: AccessKey | model.AddKey) -> Any:
    call = key.permission
    balance = key.gas_balance if isinstance(key, AccessKey) else key.balance
    gas_key = key.gas_balance is not None if isinstance(key, AccessKey) else key.num_nonces is not None
    permission = _call_permission(call) if call is not None else {}
    if gas_key:
        permission = {"balance": str(balance), "num_nonces": key.num_nonces, **permission}
        return {"GasKeyFullAccess" if call is None else "GasKeyFunctionCall": permission}
    return "FullAccess" if call is None else {"FunctionCall": permission}


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
        inner: JSON = {
            "sender_id": action.sender_id,
            "receiver_id": action.receiver_id,
            "actions": [_inner_action_view(a) for a in action.actions],
            "nonce": action.nonce,
            "max_block_height": action.max_block_height,
            "public_key": action.public_key,
        }
        if not action.second:
            return {"Delegate": {"delegate_action": inner, "signature": action.signature}}
        nonce: JSON = {"nonce": action.nonce}
        inner["nonce"] = {"Nonce": nonce}
        if action.nonce_index is not None:
            inner["nonce"] = {"GasKeyNonce": {**nonce, "nonce_index": action.nonce_index}}
        return {"DelegateV2": {"delegate_action": {"V2": inner}, "signature": action.signature}}
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
    if tx.strict:
        view["nonce_mode"] = "strict"
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
        metadata = {"version": 4, "gas_profile": [], "contracts": [None] * len(outcome.receipt.actions)}
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
        "gas_price": "0" if receipt.refund else str(gas_price),
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


def _is_refund(outcome: Outcome) -> bool:
    return outcome.receipt is not None and outcome.receipt.refund


def tx_status_view(status: TxStatus, network: Network, *, receipts: bool = False) -> JSON:
    """A transaction with every outcome this node has seen, parents before their children."""
    if status.level == "INCLUDED":
        return {"final_execution_status": status.level}  # its block has not run yet: there is no outcome to show
    record, head = status.record, status.view.head.height
    seen = {outcome.id: outcome for outcome in record.outcomes if outcome.height < head + (not _is_refund(outcome))}
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
        price = network.config.purchase_price
        # A transaction's receipt to its own signer runs where it was made; nodes keep no copy of it.
        kept = ordered[1:] if record.tx.signer_id == record.tx.receiver_id else ordered
        view["receipts"] = [receipt_view(outcome.receipt, price) for outcome in kept if outcome.receipt is not None]
    return view
