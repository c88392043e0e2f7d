"""Spans of what a lane does with an intent, for intents whose callers trace them. Everybody else's cost nothing.

Times come from the records where they have them, so that the owner that takes over after a crash goes on with the same
trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from txmanager.core.chain import SendReply
from txmanager.core.flights import Flight
from txmanager.core.lane_plan import Batch
from txmanager.core.ledger import Taken
from txmanager.core.models import Attempt, Intent, Outcome
from txmanager.core.trace import Tracer


class Traces:
    def __init__(self, tracer: Tracer, clock: Callable[[], int], lane: str) -> None:
        self._tracer = tracer
        self._clock = clock
        self._lane = lane

    def now(self) -> int:
        return self._clock()

    def recovered(self, flights: Iterable[Flight], epoch: int) -> None:
        """Another owner goes on with what is in flight."""
        now = self._clock()
        for flight in flights:
            self._span(flight.record.intent, "recover", now, now, epoch=epoch)

    def written(self, signed: Sequence[tuple[Taken, Attempt]], signed_at: int) -> None:
        """Attempts that were signed until `signed_at` are in the ledger now."""
        now = self._clock()
        for entry, attempt in signed:
            if entry.intent.trace:
                self._span(entry.intent, "queue", entry.at, attempt.signed_at)
                self._span(entry.intent, "sign", attempt.signed_at, signed_at, nonce=str(attempt.nonce))
                self._span(entry.intent, "write ahead", signed_at, now, hash=attempt.hash)

    def sent(self, batch: Batch, replies: Sequence[SendReply], began: int) -> None:
        now = self._clock()
        for (flight, attempt), reply in zip(batch, replies, strict=False):
            failed = "" if reply.verdict.sent else reply.verdict.value
            facts = {"hash": attempt.hash, "verdict": reply.verdict.value}
            self._span(flight.record.intent, "send", began, now, failed=failed, remote=True, **facts)

    def included(self, intent: Intent, attempt: Attempt) -> None:
        self._span(intent, "inclusion", attempt.signed_at, self._clock(), hash=attempt.hash)

    def settled(self, intent: Intent, outcome: Outcome, began: int) -> None:
        failed = str(outcome.error["code"]) if outcome.error else ""
        self._span(intent, "settle", began, self._clock(), failed=failed, status=outcome.status.value)

    def held(self, intent: Intent, reason: str) -> None:
        now = self._clock()
        self._span(intent, "hold", now, now, failed=reason)

    def _span(
        self,
        intent: Intent,
        name: str,
        began: int,
        ended: int,
        *,
        failed: str = "",
        remote: bool = False,
        **facts: str | int,
    ) -> None:
        if intent.trace:
            about = {"lane": self._lane, "key": intent.id.key, **facts}
            self._tracer.span(intent.trace, name, began, ended, about, failed=failed, remote=remote)
