"""How an intent ends, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.mutants.registry import Patch, all_dead, deciding_instead, mutant
from txmanager.chains.near import tracker as near_tracker
from txmanager.core.chain import Verdict
from txmanager.core.decide import Observation, Settle, Step
from txmanager.core.ledger import Settled, Settlement
from txmanager.core.models import Fence, IntentId, Outcome, Record, failure
from txmanager.core.states import Status
from txmanager.ledger.memory.lanes import LaneStore


@mutant("an intent is settled at its optimistic execution, before finality")
def settled_before_finality() -> Sequence[Patch]:
    early = frozenset({"EXECUTED_OPTIMISTIC", "EXECUTED", "FINAL"})
    return [patch.object(near_tracker, "SETTLED", {"FINAL": early})]


@mutant("settle writes again what has ended")
def settle_not_idempotent() -> Sequence[Patch]:
    original = LaneStore.settle

    def settle(
        self: LaneStore, fence: Fence, batch: Sequence[Settlement], landed: int | None, now: int, *home: Any
    ) -> list[Settled]:
        for item in batch:
            record = self.records.get(item.id)
            if record is not None and record.status.final:
                self.records[item.id] = replace(record, status=Status.INFLIGHT)
        return original(self, fence, batch, landed, now, *home)

    return [patch.object(LaneStore, "settle", settle)]


@mutant("a refused intent fails at once, while its bytes can still land")
def failed_while_the_bytes_can_land() -> Sequence[Patch]:
    def instead(record: Record, seen: Observation) -> Step | None:
        if seen.reply is None or seen.reply.verdict is not Verdict.PERMANENT:
            return None
        error = failure("rejected", seen.reply.message, new_key_helps=True)
        return Settle(Outcome(Status.FAILED, error=error), "rejected", all_dead(record, "refused"))

    return [deciding_instead(instead)]


@mutant("cancel ends an intent that is written ahead already")
def cancel_races_the_write_ahead() -> Sequence[Patch]:
    def cancel(self: LaneStore, id: IntentId, life: str, now: int) -> bool:
        record = self._record(id, life)
        if record is None or record.status.final:
            return False
        self._finish(record, Outcome(Status.CANCELLED), now)
        return True

    return [patch.object(LaneStore, "cancel", cancel)]


@mutant("what landed is not remembered: the next owner takes its own nonce for a stranger's")
def landed_is_forgotten() -> Sequence[Patch]:
    original = LaneStore.settle

    def settle(self: LaneStore, fence: Fence, batch: Any, landed: int | None, *more: Any) -> list[Settled]:
        return original(self, fence, batch, None, *more)

    return [patch.object(LaneStore, "settle", settle)]
