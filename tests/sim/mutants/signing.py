"""What is signed and sent, when, and at which nonce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.sim.mutants.registry import Patch, all_dead, deciding_instead, mutant
from txmanager.chains.near import death
from txmanager.core.chain import Proof, Verdict
from txmanager.core.decide import Observation, Resign, Step
from txmanager.core.flights import Flight, Flights
from txmanager.core.ledger import Taken, WriteAhead
from txmanager.core.models import Fence, Record
from txmanager.core.signing_plan import SigningPlan
from txmanager.core.states import Status
from txmanager.ledger.memory.lanes import LaneStore
from txmanager.runtime.lane.outbox import Outbox
from txmanager.runtime.lane.owner import OwnedLane


@mutant("bytes are sent before they are written ahead")
def broadcast_before_write_ahead() -> Sequence[Patch]:
    original = Outbox.write_ahead

    async def record(self: Outbox, writes: Sequence[WriteAhead], **asked: Any) -> bool:
        await self._lane.chain.broadcast(self._lane.id, [w.attempt for w in writes])
        return await original(self, writes, **asked)

    return [patch.object(Outbox, "write_ahead", record)]


@mutant("a time-out of a send is taken for a failure: signed again")
def resign_on_timeout() -> Sequence[Patch]:
    def instead(record: Record, seen: Observation) -> Step | None:
        lost = seen.reply is not None and seen.reply.verdict is Verdict.UNAVAILABLE
        return Resign(all_dead(record, "timed out"), False, "timed out") if lost and seen.clear else None

    return [deciding_instead(instead)]


@mutant("UNKNOWN_TRANSACTION alone counts as death")
def resign_on_unknown_alone() -> Sequence[Patch]:
    return [patch.object(death.Reading, "doom", lambda self, attempt, facts: "overtaken")]


@mutant("an attempt counts as overtaken by the head, which may be orphaned, not by a final block")
def overtaken_by_the_head() -> Sequence[Patch]:
    return [patch.object(death, "FINAL", {"finality": "optimistic"})]


@mutant("death is believed from a node that has collected that age")
def death_after_collection() -> Sequence[Patch]:
    return [patch.object(death, "_keeps", lambda *_: True)]


@mutant("the halves of a proof come from different nodes: nonce from one, UNKNOWN from another")
def proof_from_two_nodes() -> Sequence[Patch]:
    identify = death._identify

    async def same(ask: Any) -> Any:
        return replace(await identify(ask), node="anybody", head=2**62)

    prove = death.DeathProver.prove

    async def of_any(self: death.DeathProver, lane_id: str, lane: Any, attempts: Any) -> Any:
        for node in self._rpc.nodes:
            node.direct = True  # type: ignore[misc]
        return await prove(self, lane_id, lane, attempts)

    return [
        patch.object(death, "_identify", same),
        patch.object(death.DeathProver, "prove", of_any),
        patch.object(death, "_keeps", lambda *_: True),
    ]


@mutant("the cursor is read from the chain at each take-over")
def nonce_from_the_chain() -> Sequence[Patch]:
    original = OwnedLane.recover

    async def recover(self: OwnedLane) -> None:
        await original(self)
        if self.plan.stored.cursor is not None:
            cursor = (await self.retry_while_leased(lambda: self.chain.nonce(self.id))).next_nonce
            store = self.context.ledger.stores[self.id]  # type: ignore[attr-defined]
            store.cursor = self.plan.head.cursor = cursor

    return [patch.object(OwnedLane, "recover", recover)]


@mutant("the nonce of a send that failed is used again for another intent")
def recycle_after_send_error() -> Sequence[Patch]:
    original = Outbox._broadcast

    async def broadcast(self: Outbox, batch: Sequence[Any]) -> int:
        taken = await original(self, batch)
        if taken < len(batch):
            flight, attempt = batch[-1]
            store = self._lane.context.ledger.stores[self._lane.id]  # type: ignore[attr-defined]
            record = store.records.get(flight.record.id)
            if record is not None and len(record.attempts) == 1 and store.cursor == attempt.nonce + 1:
                store.records[record.id] = replace(record, attempts=(), status=Status.QUEUED)
                store.cursor = self._lane.plan.head.cursor = attempt.nonce
                earlier = [r.position for r in store.records.values() if r.attempts]
                store.signed_upto = self._lane.plan.head.signed_upto = max(earlier, default="0-0")
                self._lane.plan.flights.remove(record.id)
                self._lane.wake()
        return taken

    return [patch.object(Outbox, "_broadcast", broadcast)]


@mutant("a slot of the window is free as soon as its bytes are sent")
def window_slots_freed_too_early() -> Sequence[Patch]:
    return [patch.object(Flights, "room", lambda self: self._policy.window)]


@mutant("a re-sign or a no-op overtakes lower nonces that may still land")
def overtakes_the_innocent() -> Sequence[Patch]:
    observe = Flights.observe_all

    def carefree(self: Flights, **told: Any) -> list[tuple[Flight, Observation]]:
        return [(f, replace(o, clear=True, idle=True)) for f, o in observe(self, **told)]

    return [
        patch.object(Flights, "clear_for", lambda self, flight: True),
        patch.object(Flights, "observe_all", carefree),
    ]


@mutant("newer intents follow a re-sign at once")
def resign_followed_by_newer_ones() -> Sequence[Patch]:
    drop = SigningPlan.drop_resolved

    def forget(self: SigningPlan) -> None:
        drop(self)
        self.solo = None

    return [patch.object(SigningPlan, "drop_resolved", forget), patch.object(Flights, "waiting", False)]


@mutant("the queue is taken newest first")
def newest_first() -> Sequence[Patch]:
    original = LaneStore._after_signed

    def backwards(self: LaneStore, count: int) -> list[str]:
        return original(self, 10**6)[::-1][:count]

    return [patch.object(LaneStore, "_after_signed", backwards)]


@mutant("take answers only what was never taken: a lost reply loses the entries")
def take_forgets_a_lost_reply() -> Sequence[Patch]:
    original = LaneStore.take

    def take(self: LaneStore, fence: Fence, count: int) -> list[Taken]:
        before = set(self.pending)
        return [t for t in original(self, fence, count) if t.position not in before]

    return [patch.object(LaneStore, "take", take)]


@mutant("a proof of death is made up when the chain has none")
def proof_out_of_thin_air() -> Sequence[Patch]:
    original = death.DeathProver.prove

    async def prove(self: death.DeathProver, *args: Any) -> list[Proof | None]:
        return [proof or Proof("expired", {}) for proof in await original(self, *args)]

    return [patch.object(death.DeathProver, "prove", prove)]
