"""What operators and callers rely on beside the chain: holds, pauses, strangers, closed lanes, taken keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.mutants.registry import Patch, all_dead, deciding_instead, mutant
from txmanager.core.decide import Observation, Resign, Step
from txmanager.core.ledger import Claim, Claimed, WriteAhead
from txmanager.core.models import IntentId, Record
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory.homes import Homes
from txmanager.ledger.memory.lanes import LaneStore
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.lane.checks import Checks


@mutant("a claim whose lane was closed is never moved to another lane")
def claim_of_a_closed_lane_never_moves() -> Sequence[Patch]:
    async def stay(self: Producer, p: Any) -> None:
        return None

    return [patch.object(Producer, "_move", stay)]


def _trusting_replay() -> Patch:
    replay = Producer._replay

    async def trusting(self: Producer, p: Any, **more: Any) -> None:
        record = await self._ledger.read(p.intent.id)
        own = p.intent
        if record is not None:
            p.intent = replace(own, fingerprint=record.intent.fingerprint)
        await replay(self, p, **more)
        p.intent = own

    return patch.object(Producer, "_replay", trusting)


@mutant("a retry that finds a record gets it, whatever its own payload is")
def replay_without_comparing_payloads() -> Sequence[Patch]:
    return [_trusting_replay()]


@mutant("a claim of a key that is taken renews it, whatever its own payload is")
def claim_without_comparing_payloads() -> Sequence[Patch]:
    claim = Homes.claim

    def trusting(self: Homes, wanted: Claim, now: int) -> Claimed:
        home = self.get(wanted.id, now)
        return claim(self, replace(wanted, fingerprint=home.fingerprint) if home else wanted, now)

    return [patch.object(Homes, "claim", trusting), _trusting_replay()]


@mutant("a held intent whose bytes are dead signs itself again, and the ledger does not ask who wanted it")
def held_intent_signs_itself_again() -> Sequence[Patch]:
    def instead(record: Record, seen: Observation) -> Step | None:
        held = record.status is Status.HELD and record.directive is None
        dead = all(a.dead or a.name in seen.proofs for a in record.effects)
        return Resign(all_dead(record, "overtaken"), False, "dead") if held and dead and seen.clear else None

    check = LaneStore._check_attempt

    def lax(self: LaneStore, write: WriteAhead, top: int, seen: set[IntentId]) -> int:
        record = self.records[write.id]
        self.records[write.id] = replace(record, cancel_requested=True)  # as if somebody had asked
        try:
            return check(self, write, top, seen)
        finally:
            self.records[write.id] = record

    return [deciding_instead(instead), patch.object(LaneStore, "_check_attempt", lax)]


@mutant("whoever takes a lane over does not compare its cursor with the chain")
def no_chain_check_at_a_take_over() -> Sequence[Patch]:
    async def trusting(self: Checks) -> None:
        return None

    return [patch.object(Checks, "take_over", trusting)]


@mutant("the ledger takes first attempts of a lane that was paused after they were taken")
def paused_lane_signs_first_attempts() -> Sequence[Patch]:
    check = LaneStore._check_state

    def lax(self: LaneStore, batch: Sequence[WriteAhead]) -> None:
        state = self.state
        self.state = LaneState.ACTIVE if state is LaneState.PAUSED else state
        try:
            check(self, batch)
        finally:
            self.state = state

    return [patch.object(LaneStore, "_check_state", lax)]
