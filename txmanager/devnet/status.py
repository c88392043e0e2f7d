"""How far along a transaction is, by the words of `wait_until`.

The levels are not a ladder: a transaction may be final on chain before its receipts ran, and may have
run before its block is final. `reached` is the rule a waiting request is answered by.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from .model import TxRecord

Level = Literal["NONE", "INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"]
LEVELS: tuple[Level, ...] = get_args(Level)

_SATISFIES: dict[Level, frozenset[Level]] = {
    "NONE": frozenset(LEVELS),
    "INCLUDED": frozenset(LEVELS) - {"NONE"},
    "EXECUTED_OPTIMISTIC": frozenset({"EXECUTED_OPTIMISTIC", "EXECUTED", "FINAL"}),
    "INCLUDED_FINAL": frozenset({"INCLUDED_FINAL", "EXECUTED", "FINAL"}),
    "EXECUTED": frozenset({"EXECUTED", "FINAL"}),
    "FINAL": frozenset({"FINAL"}),
}


def reached(wanted: Level, actual: Level) -> bool:
    return actual in _SATISFIES[wanted]


def level_of(record: TxRecord, head: int, final: int) -> Level:
    included_final = record.height <= final
    if head == record.height:
        return "INCLUDED"  # its block is there, but what running it did shows with the next one
    if record.executed_at is None or record.executed_at > head:
        return "INCLUDED_FINAL" if included_final else "INCLUDED"
    if not included_final:
        return "EXECUTED_OPTIMISTIC"
    return "FINAL" if record.done_at is not None and record.done_at <= final else "EXECUTED"


def top_status(record: TxRecord, head: int) -> Any:
    """The transaction's own result: follow the receipts that stand for one another to the last."""
    by_id = {outcome.id: outcome for outcome in record.outcomes if outcome.height <= head}
    outcome = record.outcomes[0]
    while isinstance(outcome.status, dict) and "SuccessReceiptId" in outcome.status:
        following = by_id.get(outcome.status["SuccessReceiptId"])
        if following is None:
            return "Started"
        outcome = following
    return outcome.status
