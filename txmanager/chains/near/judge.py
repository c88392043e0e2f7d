"""The judge: from a transaction's final status to an `Outcome`, from chain data only, the same for every observer.

The top status alone is not trusted: a root contract answers `false` with success, and a delegate's own receipt can
fail under a successful outer one. Refunds are not failures and are not counted, so an outcome does not depend on how
long after execution it was read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from txmanager.chains.near.verdicts import variant
from txmanager.core.bounds import exact_json
from txmanager.core.models import Json, Outcome, failure
from txmanager.core.states import Status
from txmanager.rpc.errors import BadAnswer, shown

_MAX_LOGS = 100
_MAX_LOG_CHARS = 16_384
_MAX_VALUE = 65_536
_MAX_ERRORS = 20
_RESULTS = ("SuccessValue", "SuccessReceiptId", "Failure")


@dataclass(slots=True)
class Step:
    """One executed receipt (or the transaction itself). Not frozen: that would double what making one costs."""

    id: str
    executor: str
    verdict: str
    """SuccessValue, SuccessReceiptId or Failure."""
    body: Any
    """The value, the following receipt or the error."""
    receipt_ids: tuple[str, ...]
    logs: tuple[str, ...]
    gas_burnt: int
    tokens_burnt: int
    refund: bool

    @property
    def failed(self) -> bool:
        return self.verdict == "Failure"


def judge(
    kind: str, payload: Mapping[str, Json], status: Any, tx_hash: str, nonce: int, deposit: int | None = None
) -> Outcome:
    """`status` is the result of `EXPERIMENTAL_tx_status`; a malformed one is a `BadAnswer`, never an outcome. With what
    was attached (`deposit`), the outcome tells what left the account."""
    steps = _steps(status)
    effect = _effect(kind, steps)
    value = _value(effect)
    burnt = gas = 0
    errors: list[dict[str, Json]] = []
    logs: list[str] = []
    for step in steps:
        if step.refund:
            continue
        burnt += step.tokens_burnt
        gas += step.gas_burnt
        logs += step.logs
        if step.verdict == "Failure":
            errors.append({"receipt_id": step.id, "executor_id": step.executor, "error": step.body})
    kept, cut = _cut(logs) if logs else (logs, False)
    long = value is not None and len(value) > _MAX_VALUE
    parsed, whole = (None, False) if long else exact_json(value) if value else (None, True)
    result: dict[str, Json] = {
        "block_hash": _text(status["transaction_outcome"], "block_hash"),
        "value": parsed,
        "value_base64": base64.b64encode(value[:_MAX_VALUE]).decode() if value is not None else None,
        "logs": kept,
        "gas_burnt": str(gas),
        "tokens_burnt": str(burnt),
        "receipt_errors": errors[:_MAX_ERRORS],
    }
    if cut:
        result["logs_truncated"] = True
    if not whole:
        result["value_truncated"] = True
        result["value_base64_truncated"] = long
    if len(errors) > _MAX_ERRORS:
        result["receipt_errors_truncated"] = True
    wrong = _failure(kind, payload, effect, value, errors)
    cost = None if deposit is None else burnt + deposit - _returned(status, steps, deposit)
    if wrong is None:
        return Outcome(Status.DONE, tx_hash, nonce, result, cost=cost)
    code, message, helps, cause = wrong
    error = failure(code, message, new_key_helps=helps, spent=str(burnt), cause=cause)
    return Outcome(Status.FAILED, tx_hash, nonce, result, error, cost)


def _returned(status: Mapping[str, Any], steps: list[Step], deposit: int) -> int:
    """How much of the deposit came back: what the first receipt refused, and what receipts paid to the signer. Refunds
    of gas are no part of it: unused gas is not in `tokens_burnt` either."""
    transaction = steps[0]
    account, by_id = transaction.executor, {step.id: step for step in steps}
    first = by_id.get(transaction.receipt_ids[0]) if transaction.receipt_ids else None
    if first is None or first.failed:
        return deposit  # the whole receipt is undone, and its deposit goes back to its predecessor
    back = deposit if first.executor == account else 0  # nodes do not list a receipt to oneself
    plain = len([step for step in steps if not step.refund]) == 2
    for receipt in () if plain else status.get("receipts") or ():
        ran = by_id.get(str(receipt.get("receipt_id"))) if isinstance(receipt, dict) else None
        if ran is None or ran is first or ran.failed or ran.refund:
            continue  # a contract's own receipt that fails gives its deposit back to the contract
        amount = _attached(receipt)
        if receipt.get("receiver_id") == account:
            back += amount
        if receipt.get("predecessor_id") == account:
            back -= amount  # paid by a contract on the signer's own account
    return back


def _attached(receipt: Mapping[str, Any]) -> int:
    """What a receipt's actions move; a malformed one is a `BadAnswer`."""
    body = receipt.get("receipt")
    action = body.get("Action") if isinstance(body, dict) else None
    actions = action.get("actions") if isinstance(action, dict) else None
    total = 0
    for one in actions if isinstance(actions, list) else ():
        for fields in one.values() if isinstance(one, dict) else ():
            if isinstance(fields, dict) and "deposit" in fields:
                total += _number(fields["deposit"])
    return total


def _failure(
    kind: str, payload: Mapping[str, Json], effect: Step, value: bytes | None, errors: list[dict[str, Any]]
) -> tuple[str, str, bool, Any] | None:
    """(code, message, whether a new key can help, the chain's own words), or None for a success."""
    if effect.failed:
        code, helps = _name(effect.body)
        if kind == "near.delegate":
            # The user's nonce is used up, whatever failed behind it: only a newly signed delegate can run.
            return code, f"the delegate action failed on chain: {code}; sign a new delegate", False, effect.body
        return code, f"the transaction failed on chain: {code}", helps, effect.body
    if kind == "near.create_account" and payload.get("root_contract") and value == b"false":
        cause = errors[0]["error"] if errors else None
        code, helps = _name(cause) if cause is not None else ("account_not_created", True)
        return code, f"the root contract answered false: {code}", helps, cause
    return None


def _name(error: Any) -> tuple[str, bool]:
    """A stable code from the chain's error, and whether another try under a new key can help."""
    name, body = variant(error)
    while name in ("ActionError", "InvalidTxError", "TxExecutionError", "FunctionCallError", "kind"):
        inner = body.get("kind") if name == "ActionError" and isinstance(body, Mapping) else body
        if name == "FunctionCallError" and variant(inner)[0] == "ExecutionError":
            return "contract_panicked", True
        following = variant(inner)
        if not following[0]:
            break
        name, body = following
    code = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_")[:64] or "failed_on_chain"
    return code, code != "account_already_exists"


def _effect(kind: str, steps: list[Step]) -> Step:
    """The step whose status is the intent's own: the end of the chain of receipts that stand for one another."""
    transaction = steps[0]
    lone = len(steps) == 2 and steps[1].verdict == "SuccessValue"
    if lone and transaction.verdict == "SuccessReceiptId" and transaction.body == steps[1].id:
        return steps[1]  # as of most: one receipt, which made no other
    by_id = {step.id: step for step in steps}
    last = _follow(transaction, by_id)
    if last.failed or kind != "near.delegate":
        return last
    outer = by_id.get(transaction.receipt_ids[0]) if transaction.receipt_ids else None
    # The outer receipt only unpacks the delegate; what the user asked for is the receipt it sends in the user's name.
    inner = [by_id[i] for i in (outer.receipt_ids if outer else ()) if i in by_id and not by_id[i].refund]
    return _follow(inner[0], by_id) if inner else last


def _follow(step: Step, by_id: Mapping[str, Step]) -> Step:
    seen = {step.id}
    while True:
        if step.verdict != "SuccessReceiptId":
            return step
        following = by_id.get(step.body) if isinstance(step.body, str) else None
        if following is None or following.id in seen:
            raise BadAnswer("a final transaction misses the receipt that holds its result")
        step = following
        seen.add(step.id)


def _steps(status: Any) -> list[Step]:
    try:
        first, outcomes, receipts = status["transaction_outcome"], status["receipts_outcome"], status.get("receipts")
    except (KeyError, TypeError, AttributeError):
        raise BadAnswer("a transaction's status lacks its outcomes") from None
    if not isinstance(outcomes, list):
        raise BadAnswer("a transaction's status has no list of receipts_outcome")
    refunds = _refunds(receipts) if receipts else ()
    return [_step(first, ()), *[_step(outcome, refunds) for outcome in outcomes]]


def _refunds(receipts: Any) -> Container[str]:
    found = [r for r in receipts if isinstance(r, dict)] if isinstance(receipts, list) else []
    ids = (r.get("receipt_id") for r in found if r.get("predecessor_id") == "system")
    return {i for i in ids if isinstance(i, str)}


def _step(value: Any, refunds: Container[str]) -> Step:
    """Every intent has two or three: what is not in nearcore's shape shows as an exception of the straight way."""
    try:
        name, outcome = value["id"], value["outcome"]
        executor, ids, logs = outcome["executor_id"], outcome.get("receipt_ids"), outcome.get("logs")
        [(verdict, body)] = outcome["status"].items()
        gas, tokens = outcome["gas_burnt"], outcome["tokens_burnt"]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise BadAnswer("an outcome of a final transaction is not in nearcore's shape") from None
    if type(name) is not str or type(executor) is not str:
        raise BadAnswer("an outcome of a final transaction lacks its id or executor")
    if verdict not in _RESULTS:
        raise BadAnswer(f"receipt {name[:64]} of a final transaction has no result")
    return Step(
        name,
        executor,
        verdict,
        body,
        tuple(i for i in ids if isinstance(i, str)) if ids and isinstance(ids, list) else (),
        tuple(log for log in logs if isinstance(log, str)) if logs and isinstance(logs, list) else (),
        gas if type(gas) is int and gas >= 0 else _number(gas),
        _number(tokens),
        name in refunds,
    )


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise BadAnswer(f"a transaction's status lacks the string {key!r}")
    return found


def _number(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 39:
        return int(value)
    if type(value) is int and value >= 0:
        return value
    raise BadAnswer(f"{shown(value, 40)!r} is not an amount of gas or tokens")


def _value(effect: Step) -> bytes | None:
    if effect.verdict != "SuccessValue":
        return None
    try:
        return base64.b64decode(effect.body, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise BadAnswer("a SuccessValue is not base64") from None


def _cut(logs: list[str]) -> tuple[list[str], bool]:
    kept: list[str] = []
    room = _MAX_LOG_CHARS
    for log in logs:
        if len(kept) == _MAX_LOGS or room <= 0:
            return kept, True
        kept.append(log[:room])
        room -= len(log)
    return kept, room < 0
