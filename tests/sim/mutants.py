"""Seeded bugs: each a small, plausible mistake, put in by patching and never present in the code itself.

A simulator that does not catch them proves nothing. Each says which promise it breaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from tests.sim.ledger import SimLedger
from txmanager.chains.near import death
from txmanager.chains.near import tracker as near_tracker
from txmanager.core import decide as deciding
from txmanager.core.chain import Proof, Verdict
from txmanager.core.decide import Observation, Resign, Settle, Step, Wait
from txmanager.core.errors import Fenced, TxManagerError
from txmanager.core.ledger import Appended, Claim, Claimed, Entry, Lease, Settled, Settlement, Taken, WriteAhead
from txmanager.core.models import Fence, IntentId, Outcome, Purpose, Record, failure
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import ledger as memory_ledger
from txmanager.ledger.memory.homes import Home, Homes
from txmanager.ledger.memory.lanes import LaneStore
from txmanager.runtime import sender as runtime_sender
from txmanager.runtime import tracker as runtime_tracker
from txmanager.runtime.flights import Flight, Flights
from txmanager.runtime.lane import LeaseLapsed, OwnedLane
from txmanager.runtime.sender import Sender
from txmanager.runtime.worker import Worker

Patch = AbstractContextManager[Any]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    mistake: str
    make: Callable[[], Sequence[Patch]]

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as patches:
            for one in self.make():
                patches.enter_context(one)
            yield


MUTANTS: dict[str, Mutant] = {}


def mutant(mistake: str) -> Callable[[Callable[[], Sequence[Patch]]], None]:
    def add(make: Callable[[], Sequence[Patch]]) -> None:
        name = make.__name__
        MUTANTS[name] = Mutant(name, mistake, make)

    return add


def _unfenced(operation: str) -> Patch:
    """The operation takes whoever calls for the owner."""
    original = getattr(LaneStore, operation)

    def blind(self: LaneStore, fence: Fence, *args: Any) -> Any:
        return original(self, replace(fence, epoch=self.epoch, token=self.token), *args)

    return patch.object(LaneStore, operation, blind)


# -- ownership


@mutant("take does not check the fence")
def no_fence_in_take() -> Sequence[Patch]:
    return [_unfenced("take")]


@mutant("settle does not check the fence")
def no_fence_in_settle() -> Sequence[Patch]:
    return [_unfenced("settle")]


@mutant("record_attempts does not check the fence: two owners write ahead")
def no_fence_in_write_ahead() -> Sequence[Patch]:
    return [_unfenced("record_attempts")]


@mutant("the fence is the epoch alone: one that a roll-back forgot comes again")
def fence_by_epoch_alone() -> Sequence[Patch]:
    def check(self: LaneStore, fence: Fence) -> None:
        if self.epoch != fence.epoch:
            raise Fenced(self.spec.id, self.owner, self.epoch)

    renew = LaneStore.renew

    def renew_by_epoch(self: LaneStore, fence: Fence, *args: Any) -> Any:
        return renew(self, replace(fence, token=self.token), *args)

    return [patch.object(LaneStore, "check_fence", check), patch.object(LaneStore, "renew", renew_by_epoch)]


@mutant("a take-over does not raise the epoch and keeps the token")
def lease_without_a_new_fence() -> Sequence[Patch]:
    original = LaneStore.lease

    def lease(self: LaneStore, owner: str, token: str, lease_ms: int, now: int, found: str) -> Lease:
        if self.token and self.lease_until <= now:
            token = self.token
        return original(self, owner, token, lease_ms, now, found)

    return [patch.object(LaneStore, "lease", lease)]


@mutant("the lease of a lane whose loop ended is renewed for ever")
def lease_renewed_by_a_dead_loop() -> Sequence[Patch]:
    broadcast = Sender._broadcast

    async def die(self: Sender, batch: Sequence[Any]) -> int:
        if (taken := await broadcast(self, batch)) < len(batch):
            raise LeaseLapsed("the loop of this lane ends")
        return taken

    async def keep(self: Worker, lane: OwnedLane) -> None:
        return None

    return [patch.object(Sender, "_broadcast", die), patch.object(Worker, "_release", keep)]


# -- signing and sending


@mutant("bytes are sent before they are written ahead")
def broadcast_before_write_ahead() -> Sequence[Patch]:
    original = Sender._record

    async def record(self: Sender, writes: Sequence[WriteAhead]) -> bool:
        await self._lane.chain.broadcast(self._lane.id, [w.attempt for w in writes])
        return await original(self, writes)

    return [patch.object(Sender, "_record", record)]


def _deciding(instead: Callable[[Record, Observation], Step | None]) -> Patch:
    def decide(record: Record, seen: Observation, *args: Any) -> Step:
        return instead(record, seen) or deciding.decide(record, seen, *args)

    return patch.object(runtime_tracker, "decide", decide)


def _all_dead(record: Record, why: str) -> dict[str, dict[str, str]]:
    return {a.name: {"cause": why} for a in record.live}


@mutant("a time-out of a send is taken for a failure: signed again")
def resign_on_timeout() -> Sequence[Patch]:
    def instead(record: Record, seen: Observation) -> Step | None:
        lost = seen.reply is not None and seen.reply.verdict is Verdict.UNAVAILABLE
        return Resign(_all_dead(record, "timed out"), False, "timed out") if lost and seen.clear else None

    return [_deciding(instead)]


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
        if self.lane.cursor is not None:
            self.cursor = (await self.insist(lambda: self.chain.nonce(self.id))).next_nonce
            store = self.context.ledger.stores[self.id]  # type: ignore[attr-defined]
            store.cursor = self.cursor

    return [patch.object(OwnedLane, "recover", recover)]


@mutant("the nonce of a send that failed is used again for another intent")
def recycle_after_send_error() -> Sequence[Patch]:
    original = Sender._broadcast

    async def broadcast(self: Sender, batch: Sequence[Any]) -> int:
        taken = await original(self, batch)
        if taken < len(batch):
            flight, attempt = batch[-1]
            store = self._lane.context.ledger.stores[self._lane.id]  # type: ignore[attr-defined]
            record = store.records.get(flight.record.id)
            if record is not None and len(record.attempts) == 1 and store.cursor == attempt.nonce + 1:
                store.records[record.id] = replace(record, attempts=(), status=Status.QUEUED)
                store.cursor = self._lane.cursor = attempt.nonce
                earlier = [r.stream_id for r in store.records.values() if r.attempts]
                store.signed_upto = self._lane.signed_upto = max(earlier, default="0-0")
                self._lane.flights.remove(record.id)
                self._lane.wake()
        return taken

    return [patch.object(Sender, "_broadcast", broadcast)]


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
    drop = Sender._drop_resolved

    def forget(self: Sender) -> None:
        drop(self)
        self._solo = None

    return [patch.object(Sender, "_drop_resolved", forget), patch.object(Flights, "waiting", False)]


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
        return [t for t in original(self, fence, count) if t.stream_id not in before]

    return [patch.object(LaneStore, "take", take)]


# -- ends


@mutant("an intent is settled at its optimistic execution, before finality")
def settled_before_finality() -> Sequence[Patch]:
    early = frozenset({"EXECUTED_OPTIMISTIC", "EXECUTED", "FINAL"})
    return [patch.object(near_tracker, "SETTLED", {"FINAL": early})]


@mutant("settle writes again what has ended")
def settle_not_idempotent() -> Sequence[Patch]:
    original = LaneStore.settle

    def settle(
        self: LaneStore, fence: Fence, batch: Sequence[Settlement], landed: int | None, now: int
    ) -> list[Settled]:
        for item in batch:
            record = self.records.get(item.id)
            if record is not None and record.status.final:
                self.records[item.id] = replace(record, status=Status.INFLIGHT)
        return original(self, fence, batch, landed, now)

    return [patch.object(LaneStore, "settle", settle)]


@mutant("a refused intent fails at once, while its bytes can still land")
def failed_while_the_bytes_can_land() -> Sequence[Patch]:
    def instead(record: Record, seen: Observation) -> Step | None:
        if seen.reply is None or seen.reply.verdict is not Verdict.PERMANENT:
            return None
        error = failure("rejected", seen.reply.message, new_key_helps=True)
        return Settle(Outcome(Status.FAILED, error=error), "rejected", _all_dead(record, "refused"))

    return [_deciding(instead)]


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

    def settle(self: LaneStore, fence: Fence, batch: Any, landed: int | None, now: int) -> list[Settled]:
        return original(self, fence, batch, None, now)

    return [patch.object(LaneStore, "settle", settle)]


# -- keys, homes and lanes


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
            self.queue.pop(record.stream_id, None)
        return original(self, entry, now)

    return [patch.object(LaneStore, "append", append)]


@mutant("a caller is told 'accepted' although nothing was appended")
def accepted_before_it_is_durable() -> Sequence[Patch]:
    original = SimLedger.append

    async def append(self: SimLedger, lane: str, entries: Sequence[Entry]) -> list[Appended]:
        try:
            return await original(self, lane, entries)
        except TxManagerError:
            return [Appended("appended", "1-0", "queued", 1, 1) for _ in entries]

    return [patch.object(SimLedger, "append", append)]


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


@mutant("a lane closes as soon as nothing is queued, with final records still in it")
def closed_with_unretired_records() -> Sequence[Patch]:
    original = LaneStore.set_state

    def set_state(self: LaneStore, state: LaneState, reason: str, evidence: Mapping[str, Any], fence: Any) -> None:
        if state is LaneState.CLOSED and not self.queue:
            records, self.records = self.records, {}
            try:
                original(self, state, reason, evidence, fence)
            finally:
                self.records = records
            return
        original(self, state, reason, evidence, fence)

    return [patch.object(LaneStore, "set_state", set_state)]


@mutant("a rolled-back ledger is trusted: what it forgot is signed again")
def resign_after_a_roll_back() -> Sequence[Patch]:
    original = OwnedLane._check_history

    async def trust(self: OwnedLane, lane: Any, remembered: Any) -> None:
        self.context.ledger.vouches = True  # type: ignore[misc]
        await original(self, lane, remembered)

    return [patch.object(OwnedLane, "_check_history", trust)]


@mutant("a proof of death is made up when the chain has none")
def proof_out_of_thin_air() -> Sequence[Patch]:
    original = death.DeathProver.prove

    async def prove(self: death.DeathProver, *args: Any) -> list[Proof | None]:
        return [proof or Proof("expired", {}) for proof in await original(self, *args)]

    return [patch.object(death.DeathProver, "prove", prove)]


@mutant("an owner whose lease lapsed vouches for a rolled-back ledger by what it remembers")
def former_owner_vouches() -> Sequence[Patch]:
    known: dict[tuple[int, str], Any] = {}
    record, check = Sender._record, OwnedLane._check_history

    async def remember(self: Sender, writes: Sequence[WriteAhead]) -> bool:
        done = await record(self, writes)
        lane = self._lane
        if done:
            lane.signed_upto = writes[-1].stream_id
        known[id(lane.context), lane.id] = lane.footing
        return done

    async def recall(self: OwnedLane, lane: Any, footing: Any) -> None:
        await check(self, lane, footing or known.get((id(self.context), self.id)))

    return [patch.object(Sender, "_record", remember), patch.object(OwnedLane, "_check_history", recall)]


@mutant("a worker whose lane ended by itself during a renewal dies of it")
def worker_dies_with_its_lane() -> Sequence[Patch]:
    async def give_back(self: Worker, lane: str) -> None:
        held = self._held.pop(lane)
        await asyncio.sleep(0)
        held.task.cancel()
        await asyncio.gather(held.task, return_exceptions=True)
        await self._release(held.lane)

    async def release(self: Worker, lane: OwnedLane) -> None:
        self._held.pop(lane.id)
        await self._ledger.release(lane.fence)

    return [patch.object(Worker, "_give_back", give_back), patch.object(Worker, "_release", release)]


@mutant("what is cancelled in a full window waits for an intent that can never follow")
def cancelled_in_a_full_window_waits() -> Sequence[Patch]:
    def instead(record: Record, seen: Observation) -> Step | None:
        noop = any(a.purpose is Purpose.NOOP for a in record.attempts)
        stuck = record.cancel_requested and record.live and not noop and not seen.overtaken
        on_chain = any(s.where in ("included", "final") for s in seen.sightings.values())
        return Wait("killed by the next intent that lands") if stuck and not on_chain else None

    return [_deciding(instead)]


@mutant("a clock that is set back stops the asking after lost transactions")
def clock_set_back_stops_the_asking() -> Sequence[Patch]:
    def decide(record: Record, seen: Observation, policy: Any, traits: Any, now: int) -> Step:
        return deciding.decide(record, replace(seen, sent_at=min(seen.sent_at, now)), policy, traits, now)

    return [patch.object(runtime_tracker, "decide", decide)]


@mutant("a caller is told 'cancelled' by a server that no replica follows")
def told_before_it_is_durable() -> Sequence[Patch]:
    return [patch.object(memory_ledger, "_unsure", lambda read: False)]


@mutant("a successor sends what its predecessor wrote ahead and no replica has")
def unconfirmed_write_ahead_is_sent_by_the_next_owner() -> Sequence[Patch]:
    async def unfinished(self: SimLedger, fence: Fence) -> list[Record]:
        return await self._step("unfinished", lambda _: self._fenced(fence).unfinished(fence))

    return [patch.object(SimLedger, "unfinished", unfinished)]


@mutant("WAIT counts after a replay that wrote nothing: it has nothing to wait for, and confirms at once")
def wait_after_a_replay_that_wrote_nothing() -> Sequence[Patch]:
    return [patch.object(SimLedger, "waits_for_replicas", lambda self, wrote: wrote)]


# -- what schedules found once


@mutant("the no-op that kills a re-signed intent waits for that intent, which waits for it")
def noop_waits_for_its_own_resign() -> Sequence[Patch]:
    turn = Sender._turn

    async def patient(self: Sender) -> bool:
        solo = self._solo
        if solo is None or solo.order is None:
            return await turn(self)
        order, solo.order = solo.order, None
        try:
            return await turn(self)
        finally:
            solo.order = order

    return [patch.object(Sender, "_turn", patient)]


@mutant("a cursor that does not fit the ledger's is tried again without pause and without end")
def cursor_moved_is_tried_again() -> Sequence[Patch]:
    quarantine = OwnedLane.quarantine

    async def carefree(self: OwnedLane, reason: str, evidence: Mapping[str, Any]) -> None:
        if reason != "cursor_moved":
            await quarantine(self, reason, evidence)

    return [patch.object(OwnedLane, "quarantine", carefree)]


@mutant("what a roll-back put in flight again is not looked at by the owner that vouched for it")
def rolled_back_flights_are_not_tracked() -> Sequence[Patch]:
    obey = OwnedLane.obey

    async def unheard(self: OwnedLane) -> None:
        with patch.object(self.flying, "set"):
            await obey(self)

    return [patch.object(OwnedLane, "obey", unheard)]


@mutant("a re-sign whose probe got no answer counts as refused: newer intents follow it")
def no_answer_is_a_refusal() -> Sequence[Patch]:
    return [patch.object(runtime_sender, "NO_WORD", ())]


@mutant("an owner whose lane is closed under it takes the refusal for a fault of its own")
def breaks_when_its_lane_is_closed() -> Sequence[Patch]:
    async def stop(self: OwnedLane, state: LaneState, reason: str, evidence: Mapping[str, Any]) -> Any:
        return await self.context.ledger.set_lane(self.id, state, reason, evidence, fence=self.fence)

    return [patch.object(OwnedLane, "_stop", stop)]
