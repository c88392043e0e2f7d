"""Keys, homes, lanes: what is kept, where, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from unittest.mock import patch

from tests.sim.ledger import SimLedger
from tests.sim.mutants.registry import Patch, mutant
from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import Appended, Claim, Claimed, Entry, Settled, Settlement
from txmanager.core.models import Fence, Record
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.memory.homes import Home, Homes
from txmanager.ledger.memory.lanes import LaneStore


@mutant("the retention of an answer counts from the claim")
def retention_from_the_claim() -> Sequence[Patch]:
    original = Homes.retire

    def retire(self: Homes, record: Record, retention_ms: int, now: int) -> bool:
        return original(self, record, max(1, retention_ms - (now - record.created_at)), now)

    return [patch.object(Homes, "retire", retire)]


@mutant("a retry is routed again, by the pool as it is now")
def router_consulted_on_retry() -> Sequence[Patch]:
    original = Homes.claim

    def claim(self: Homes, claim: Claim, now: int) -> Claimed:
        home = self.get(claim.id, now)
        if home is not None and home.record is None and home.alias_of is None:
            home.lane = claim.lane
        return original(self, claim, now)

    return [patch.object(Homes, "claim", claim)]


@mutant("each claim of a key starts a life of its own")
def claim_starts_another_life() -> Sequence[Patch]:
    def claim(self: Homes, claim: Claim, now: int) -> Claimed:
        home = self.get(claim.id, now)
        if home is not None and home.record is not None:
            return Claimed("final", lane=home.lane, life=home.life, born=home.born, record=home.record)
        self._homes[claim.id] = Home(claim.fingerprint, claim.lane, claim.life, now)
        return Claimed("claimed", lane=claim.lane, life=claim.life, born=now)

    return [patch.object(Homes, "claim", claim)]


@mutant("append does not know an intent that is there already")
def append_twice() -> Sequence[Patch]:
    original = LaneStore.append

    def append(self: LaneStore, entry: Entry, now: int) -> Appended:
        record = self.records.get(entry.intent.id)
        if record is not None and record.status is Status.QUEUED:
            del self.records[entry.intent.id]
            self.queue.pop(record.position, None)
        return original(self, entry, now)

    return [patch.object(LaneStore, "append", append)]


@mutant("a caller is told 'accepted' although nothing was appended")
def accepted_before_it_is_durable() -> Sequence[Patch]:
    def hasty(name: str) -> Patch:
        original = getattr(SimLedger, name)

        async def step(self: SimLedger, lane: str, entries: Sequence[Entry]) -> list[Appended]:
            try:
                return cast("list[Appended]", await original(self, lane, entries))
            except TxManagerError:
                return [Appended("appended", "1-0", "queued", 1, 1) for _ in entries]

        return patch.object(SimLedger, name, step)

    return [hasty("append"), hasty("accept")]


@mutant("a new key is accepted at once without a look at its home")
def accepts_a_known_key() -> Sequence[Patch]:
    original = MemoryLedger._accept

    def accept(self: MemoryLedger, lane: str, entry: Entry, now: int) -> Appended:
        known = self.homes._homes.pop(entry.intent.id, None)
        answer = original(self, lane, entry, now)
        if known is not None:
            self.homes._homes[entry.intent.id] = known
        return answer

    return [patch.object(MemoryLedger, "_accept", accept)]


@mutant("a key that is accepted at once leaves no claim")
def accepted_without_a_claim() -> Sequence[Patch]:
    original = MemoryLedger._accept

    def accept(self: MemoryLedger, lane: str, entry: Entry, now: int) -> Appended:
        answer = original(self, lane, entry, now)
        if answer.word == "appended":
            self.homes._homes.pop(entry.intent.id)
        return answer

    return [patch.object(MemoryLedger, "_accept", accept)]


@mutant("a retired record leaves no tombstone: a late append starts it again")
def no_tombstone() -> Sequence[Patch]:
    original = LaneStore.bury

    def bury(self: LaneStore, record: Record, now: int) -> bool:
        done = original(self, record, now)
        self.tombstones.pop(record.id, None)
        return done

    return [patch.object(LaneStore, "bury", bury)]


@mutant("a record leaves its lane before its home has it")
def retire_without_durability() -> Sequence[Patch]:
    async def retire(self: SimLedger, records: Sequence[Record]) -> int:
        lanes = self.stores
        gone = await self._step("retire_lane", lambda now: sum(lanes[r.lane].bury(r, now) for r in records))
        keep = self._retention_ms
        await self._step("retire_home", lambda now: [self.homes.retire(r, keep, now) for r in records])
        return gone

    return [patch.object(SimLedger, "retire", retire)]


def _settles_without_home() -> Patch:
    original = LaneStore.settle

    def settle(self: LaneStore, fence: Fence, batch: Any, landed: int | None, now: int, home: Any = None) -> Any:
        return original(self, fence, batch, landed, now, home and (lambda final: None))

    return patch.object(LaneStore, "settle", settle)


@mutant("an end that leaves its lane at once leaves no answer at its home")
def ended_at_once_without_a_home() -> Sequence[Patch]:
    return [_settles_without_home()]


@mutant("an end that goes home at once does so in two steps, the tombstone first")
def ended_at_once_in_two_steps() -> Sequence[Patch]:
    original = SimLedger.settle

    async def settle(
        self: SimLedger, fence: Fence, batch: Sequence[Settlement], landed: int | None = None
    ) -> list[Settled]:
        answers = await original(self, fence, batch, landed)
        pairs = zip(batch, answers, strict=True)
        finals = [replace(i.final, updated_at=a.at) for i, a in pairs if a.retired and i.final is not None]
        if finals:
            keep = self._retention_ms
            await self._step("retire_home", lambda now: [self.homes.retire(r, keep, now) for r in finals])
        return answers

    return [_settles_without_home(), patch.object(SimLedger, "settle", settle)]


@mutant("a lane closes as soon as nothing is queued, with final records still in it")
def closed_with_unretired_records() -> Sequence[Patch]:
    original = LaneStore.set_state

    def set_state(self: LaneStore, state: LaneState, *told: Any) -> None:
        if state is LaneState.CLOSED and not self.queue:
            records, self.records = self.records, {}
            try:
                original(self, state, *told)
            finally:
                self.records = records
            return
        original(self, state, *told)

    return [patch.object(LaneStore, "set_state", set_state)]
