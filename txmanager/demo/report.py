"""What the demo saw, as numbers; which promises it broke, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Report:
    requests: int
    answered: int
    replayed: int
    unique: int
    duplicates: int
    done: int
    created: int
    transactions: int
    invalid_nonce: int
    overtaken: int
    order_violations: int
    different_answers: int
    killed: str
    in_flight_at_kill: int
    p50_s: float
    p99_s: float
    took_s: float

    def rows(self) -> Iterator[tuple[str, str]]:
        yield "requests accepted", f"{self.answered} of {self.requests}"
        yield "unique accounts requested", str(self.unique)
        yield "created on chain", str(self.created)
        yield "transactions on chain", str(self.transactions)
        yield "duplicates answered from cache", f"{self.replayed} of {self.duplicates}"
        yield "retries with a different answer", str(self.different_answers)
        yield "InvalidNonce (nonces used twice)", str(self.invalid_nonce)
        yield "order violations", str(self.order_violations)
        yield "overtaken on the way, signed again", str(self.overtaken)
        yield "worker killed with -9", f"{self.killed}, {self.in_flight_at_kill} in flight"
        yield "request to final, p50 / p99", f"{self.p50_s:.2f} s / {self.p99_s:.2f} s"
        yield "took", f"{self.took_s:.0f} s"

    def broken(self) -> Iterator[str]:
        """Every promise that did not hold; nothing when all did."""
        if self.answered < self.requests:
            yield f"{self.requests - self.answered} requests got no answer"
        if self.done != self.unique:
            yield f"{self.unique - self.done} intents are not done"
        if self.created != self.unique:
            yield f"{self.unique} accounts were requested, {self.created} are on chain"
        if self.transactions > self.unique:
            yield f"{self.transactions} transactions for {self.unique} intents: something was paid twice"
        if self.replayed < self.duplicates:
            yield f"{self.duplicates - self.replayed} duplicates were accepted as new intents"
        if self.different_answers:
            yield f"{self.different_answers} retries got a different answer than the first request"
        if self.invalid_nonce:
            yield f"{self.invalid_nonce} transactions share a nonce with another one"
        if self.order_violations:
            yield f"{self.order_violations} first attempts out of order"
        if not self.in_flight_at_kill:
            yield "the kill hit an idle worker, so this run proves nothing about crashes"


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def different_answers(answers: Sequence[Mapping[str, Any]]) -> int:
    """Answers that differ from the first one with the same key."""
    first: dict[str, tuple[Any, Any]] = {}
    differ = 0
    for answer in answers:
        got = (answer["status"], answer["tx_hash"])
        differ += first.setdefault(answer["key"], got) != got
    return differ
