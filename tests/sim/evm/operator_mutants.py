"""Seeded bugs of what operators rely on: holds, pauses, strangers, and that everything ends once they have spoken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.evm.planting import Bugs, Patch, arm_instead
from txmanager.core import alive
from txmanager.core.alive import Alive
from txmanager.core.lane_plan import LanePlan
from txmanager.core.ledger import WriteAhead
from txmanager.core.models import IntentId, Purpose
from txmanager.core.states import LaneState, Status
from txmanager.core.steps import Step
from txmanager.ledger.memory.lanes import LaneStore
from txmanager.runtime.lane.checks import Checks
from txmanager.runtime.lane.tracker import Tracker

MUTANTS = Bugs()
mutant, planted = MUTANTS.mutant, MUTANTS.planted


def _ledger_that_takes_anything_of_held_intents() -> Patch:
    check = LaneStore._check_attempt

    def lax(self: LaneStore, write: WriteAhead, top: int, seen: set[IntentId]) -> int:
        record = self.records[write.id]
        if record.status is Status.HELD:
            self.records[write.id] = replace(record, status=Status.INFLIGHT)
        try:
            return check(self, write, top, seen)
        finally:
            self.records[write.id] = record

    return patch.object(LaneStore, "_check_attempt", lax)


@mutant
def held_intent_is_offered_more_for() -> Sequence[Patch]:
    def eager(case: Alive) -> bool:
        return case.traits.replaces and not case.seen.priced_out

    return [patch.object(alive, "_may_offer_more", eager), _ledger_that_takes_anything_of_held_intents()]


@mutant
def held_intent_is_killed_by_itself() -> Sequence[Patch]:
    """It waited for a person, and is given up instead."""
    sound = alive.kill

    def impatient(case: Alive) -> Step | None:
        asked = case.record.cancel_requested or case.record.directive is not None
        if not case.held or asked or case.noops:
            return sound(case)
        return sound(replace(case, record=replace(case.record, cancel_requested=True)))

    return [arm_instead(sound, impatient), _ledger_that_takes_anything_of_held_intents()]


@mutant
def strangers_nonce_is_never_noticed() -> Sequence[Patch]:
    async def trusting(self: Checks) -> None:
        return None

    return [patch.object(Checks, "take_over", trusting), patch.object(LanePlan, "foreign", lambda *_: False)]


@mutant
def paused_lane_goes_on_taking() -> Sequence[Patch]:
    """Neither the plan nor the ledger minds an operator's pause."""
    check = LaneStore._check_state

    def lax(self: LaneStore, batch: Sequence[WriteAhead]) -> None:
        if self.state is not LaneState.PAUSED or any(w.attempt.purpose is not Purpose.FIRST for w in batch):
            check(self, batch)

    def may_take(self: Any) -> bool:
        return bool(self._taking) and self.state is not LaneState.QUARANTINED

    return [patch.object(LanePlan, "may_take", may_take), patch.object(LaneStore, "_check_state", lax)]


@mutant
def lane_that_waited_for_a_held_intent_never_goes_on() -> Sequence[Patch]:
    async def never(self: Tracker) -> None:
        return None

    return [patch.object(Tracker, "_resume_by_itself", never)]


@mutant
def nobody_retires_what_ended() -> Sequence[Patch]:
    from txmanager.runtime.care.sweeper import Sweeper
    from txmanager.runtime.lane.retirer import Retirer

    async def lazy(self: Sweeper) -> tuple[int, int]:
        return 0, 0

    return [patch.object(Retirer, "add", lambda *_: None), patch.object(Sweeper, "sweep_once", lazy)]
