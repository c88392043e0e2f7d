"""The production memory ledger behind a bad network, on a server that restarts, forgets and has a clock of its own.

Every call may lose its request or its reply, arrive late or twice, or find its caller dead. What a lane's store does
is noted in the history inside the same atomic step.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar
from unittest.mock import patch

from tests.sim.faults import Faults
from tests.sim.history import (
    Appended,
    Closed,
    Ended,
    Held,
    History,
    Leased,
    Moved,
    Operated,
    Recorded,
    Released,
    Retired,
    RolledBack,
    Wrote,
)
from tests.sim.loop import PROCESS, Life, VirtualLoop
from txmanager.core import ledger as words
from txmanager.core import models
from txmanager.core.budgets import OpenCharge
from txmanager.core.errors import TxManagerError, Unavailable, Unconfirmed
from txmanager.core.models import Attempt, Fence, IntentId, Json, Outcome, Purpose, Record
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.memory.budgets import BudgetStore
from txmanager.ledger.memory.homes import Homes
from txmanager.ledger.memory.lanes import LaneStore
from txmanager.runtime.care import sweeper

T = TypeVar("T")
_OWNERS_WRITES = ("cursor", "signed_upto")


class WatchedLane(LaneStore):
    """A lane's store that notes what it did."""

    __slots__ = ("history", "signers", "warned")
    history: History
    signers: dict[str, str]
    """Which owner's token wrote which hash."""
    warned: set[str]
    """Tokens of owners that could see a stranger's nonce when they took the lane over."""

    @classmethod
    def of(cls, store: LaneStore, history: History) -> WatchedLane:
        lane = cls(**{f.name: getattr(store, f.name) for f in fields(LaneStore)})
        lane.history = history
        lane.signers = store.signers if isinstance(store, WatchedLane) else {}
        lane.warned = store.warned if isinstance(store, WatchedLane) else set()
        return lane

    def copy(self) -> WatchedLane:
        twin = WatchedLane.of(self, self.history)
        for f in fields(LaneStore):
            value = getattr(twin, f.name)
            if isinstance(value, dict | set | list):
                setattr(twin, f.name, value.copy())
        return twin

    def _wrote(self, operation: str, fence: Fence) -> None:
        history = self.history
        history.note(Wrote(history.time(), self.spec.id, operation, fence.epoch, fence.token))

    def append(self, entry: words.Entry, now: int) -> words.Appended:
        answer = super().append(entry, now)
        if answer.word == "appended":
            fact = Appended(self.history.time(), self.spec.id, entry.intent.id, entry.life, answer.position)
            self.history.note(fact)
        return answer

    def lease(self, owner: str, token: str, lease_ms: int, now: int, found: str) -> words.Lease:
        before = self.token
        answer = super().lease(owner, token, lease_ms, now, found)
        if answer.fence is not None and before != token:
            ours = {a.nonce for r in self.records.values() for a in r.attempts}
            if self.history.strangers(self.spec.id, ours):
                self.warned.add(token)
        if answer.fence is not None:
            fence = answer.fence
            self.history.note(Leased(self.history.time(), self.spec.id, fence.epoch, fence.token, fence.owner))
        return answer

    def release(self, fence: Fence) -> bool:
        answer = super().release(fence)
        if answer:
            self.history.note(Released(self.history.time(), self.spec.id, fence.token))
        return answer

    def set_baseline(self, fence: Fence, cursor: int, operator: bool) -> int:
        answer = super().set_baseline(fence, cursor, operator)
        if operator:  # who vouches for what a stranger did
            self.warned.clear()
        return answer

    def take(self, fence: Fence, count: int) -> list[words.Taken]:
        answer = super().take(fence, count)
        self._wrote("take", fence)
        return answer

    def unfinished(self, fence: Fence) -> list[Record]:
        answer = super().unfinished(fence)
        self._wrote("unfinished", fence)
        return answer

    def fill(
        self,
        fence: Fence,
        attempts: Sequence[Attempt],
        done: Sequence[str],
        found: str,
        landed: Sequence[Record],
        now: int,
    ) -> list[Attempt]:
        answer = super().fill(fence, attempts, done, found, landed, now)
        self._wrote("fill", fence)
        self.history.recorded.update(attempt.hash for attempt in answer)
        return answer

    def hold(self, fence: Fence, id: IntentId, life: str, hold: Mapping[str, Json], now: int) -> bool:
        before = self.records.get(id)
        answer = super().hold(fence, id, life, hold, now)
        self._wrote("hold", fence)
        if answer and before is not None and before.status is not Status.HELD:
            self.history.note(Held(self.history.time(), self.spec.id, id, life))
        return answer

    def record_attempts(
        self, fence: Fence, cursor: int, batch: Sequence[words.WriteAhead], now: int, found: str
    ) -> int:
        known = {a.hash for r in self.records.values() for a in r.attempts}
        facts = [self._recorded_fact(write, fence) for write in batch if write.attempt.hash not in known]
        answer = super().record_attempts(fence, cursor, batch, now, found)
        self._wrote("record_attempts", fence)
        for fact in facts:
            self.history.recorded.add(fact.hash)
            self.signers[fact.hash] = fence.token
            self.history.note(fact)
        return answer

    def _recorded_fact(self, write: words.WriteAhead, fence: Fence) -> Recorded:
        attempt, record = write.attempt, self.records.get(write.id)
        unproven = tuple(a.name for a in record.effects if not a.dead and a.name not in write.deaths) if record else ()
        below = tuple(
            a.name
            for other in self.records.values()
            if other.id != write.id and other.status is Status.INFLIGHT
            for a in other.live
            if a.nonce < attempt.nonce and self.history.may_land(self.spec.id, a)
        )
        alone = tuple(
            a.name
            for other in self.records.values()
            if other.status is Status.INFLIGHT
            for a in other.live
            if a.purpose is not Purpose.FIRST
            and self.signers.get(a.hash) == fence.token
            and a.hash not in self.history.refused
            and self.history.may_land(self.spec.id, a)
        )
        return Recorded(
            self.history.time(),
            self.spec.id,
            write.id,
            write.life,
            write.position,
            attempt.nonce,
            attempt.hash,
            attempt.purpose,
            write.deaths,
            unproven,
            below if attempt.purpose is not Purpose.FIRST else (),
            alone if attempt.purpose is Purpose.FIRST else (),
            self.state,
            record is not None and record.status is Status.HELD,
            _asked(record) if record is not None else "",
            fence.token in self.warned,
        )

    def settle(
        self, fence: Fence, batch: Sequence[words.Settlement], landed: int | None, now: int, *home: Any
    ) -> list[words.Settled]:
        answers = super().settle(fence, batch, landed, now, *home)
        self._wrote("settle", fence)
        return answers

    def set_state(
        self, state: LaneState, reason: str, evidence: Mapping[str, Json], fence: Fence | None, *stop: Any
    ) -> None:
        super().set_state(state, reason, evidence, fence, *stop)
        if state is LaneState.CLOSED:
            self.history.note(Closed(self.history.time(), self.spec.id, len(self.records)))

    def _finish(self, record: Record, outcome: Outcome, now: int) -> Record:
        final = super()._finish(record, outcome, now)
        proofs = {a.name: a.proof for a in final.attempts if a.proof is not None}
        held = record.status is Status.HELD
        self.history.note(
            Ended(self.history.time(), self.spec.id, final.id, final.life, outcome, proofs, held, _asked(record))
        )
        return final


def _asked(record: Record) -> str:
    """In words: what an operator asked for and, perhaps besides, that its caller cancelled it."""
    verb = str(record.directive.get("verb", "")) if record.directive else ""
    return " ".join(filter(None, (verb, "cancel" if record.cancel_requested else "")))


@contextlib.contextmanager
def few_homes() -> Iterator[None]:
    """16 homes instead of 1,024, most of which a handful of keys would leave empty."""
    with patch.object(models, "HOMES", 16), patch.object(sweeper, "HOMES", 16):
        yield


class _Stores(dict[str, LaneStore]):
    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def __setitem__(self, lane: str, store: LaneStore) -> None:
        watched = store if isinstance(store, WatchedLane) else WatchedLane.of(store, self._history)
        super().__setitem__(lane, watched)


class WatchedHomes(Homes):
    history: History

    def __init__(self) -> None:
        super().__init__()
        self.known: set[int] = set()

    def move(self, id: IntentId, life: str, old_lane: str, new_lane: str, now: int) -> words.Claimed:
        before = self.get(id, now)
        was = before.lane if before is not None else ""
        answer = super().move(id, life, old_lane, new_lane, now)
        if was != answer.lane == new_lane:
            self.history.note(Moved(self.history.time(), id, life, new_lane))
        return answer

    def retire(self, record: Record, retention_ms: int, now: int) -> bool:
        answer = super().retire(record, retention_ms, now)
        if answer:
            self.history.note(Retired(self.history.time(), record.id, record.life))
        return answer

    def slots(self) -> set[int]:
        if len(self.known) != len(self._homes):
            self.known = {id.home for id in self._homes}
        return self.known

    def copy(self) -> dict[IntentId, Any]:
        return {id: replace(home) for id, home in self._homes.items()}

    def restore(self, homes: Mapping[IntentId, Any]) -> None:
        self._homes = {id: replace(home) for id, home in homes.items()}
        self.known = set()


@dataclass(frozen=True, slots=True)
class Snapshot:
    homes: Mapping[IntentId, Any]
    stores: Mapping[str, WatchedLane]
    budgets: BudgetStore
    mark: tuple[int, frozenset[str]]


class SimLedger(MemoryLedger):
    def __init__(
        self,
        loop: VirtualLoop,
        faults: Faults,
        history: History,
        *,
        clock: Callable[[], int],
        retention_ms: int,
        vouches: bool,
        pause: Callable[[float], None],
        one_step: bool = False,
    ) -> None:
        super().__init__(clock=clock, retention_ms=retention_ms, vouches=vouches, one_step=one_step)
        self._loop, self._faults, self._history, self._pause = loop, faults, history, pause
        self.homes: WatchedHomes = WatchedHomes()
        self.homes.history = history
        self.stores = _Stores(history)
        self.down = False
        self.cut_off = False
        """Whether the replica hears nothing: what must outlive this server is carried out, and not confirmed."""
        self.generation = 0

    # -- the way there and back

    async def _step(self, operation: str, step: Callable[[int], T], *, durable: bool = False) -> T:
        process = PROCESS.get()
        if process is None:
            return step(self._clock())
        faults, loop = self._faults, self._loop
        fault = faults.draw("ledger", f"{process.name} {operation}")
        amount = faults.amount("ledger") if fault else 0.0
        early = amount < 0.5
        if fault == "crash" and early:
            process.kill()
        if fault == "pause" and early:
            self._pause(amount * 2)
        await asyncio.sleep(0.0005 + (amount * 4.0 if fault == "slow" else 0.0))
        if process.life is Life.DEAD:
            await process.gone()
        if fault == "late_request":
            loop.later(0.2 + amount * amount * 40.0, self._execute, step)
        if self.down or fault in ("lost_request", "late_request"):
            await asyncio.sleep(0.1 + amount)
            raise Unavailable("the ledger did not answer")
        result, wrote = self._carry_out(step)
        if fault == "duplicate":
            loop.later(amount * amount * 20.0, self._execute, step)
        if fault == "crash":
            process.kill()
            await process.gone()
        if fault == "pause":
            self._pause((amount - 0.5) * 2)
        if fault == "lost_reply":
            await asyncio.sleep(0.1 + amount)
            raise Unavailable("the ledger did not answer")
        if durable and self.cut_off and self.waits_for_replicas(wrote):
            generation = self.generation
            await asyncio.sleep(0.3 + 0.2 * amount)
            if self.cut_off or self.down or self.generation != generation:
                raise Unconfirmed("0 of 1 replicas confirmed; retry the same key")
        await asyncio.sleep(0.0)
        return result

    def _carry_out(self, step: Callable[[int], T]) -> tuple[T, bool]:
        """The result, and whether anything changed by it."""
        facts = self._history.facts
        before = len(facts)
        result = step(self._clock())
        return result, any(not isinstance(fact, Wrote) for fact in facts[before:])

    def waits_for_replicas(self, wrote: bool) -> bool:
        """Always: a script that finds its work done touches the lane, or WAIT would have nothing to wait for."""
        return True

    def _execute(self, step: Callable[[int], Any]) -> None:
        """A request that arrives when nobody waits for it any more."""
        if not self.down:
            with contextlib.suppress(TxManagerError):
                step(self._clock())

    def _wake(
        self,
        lane: str,
        final: IntentId | None = None,
        told: Record | None = None,
        entry: words.Taken | None = None,
    ) -> None:
        """One that is lost may still come, much later; another one comes twice."""
        amount = 1.0
        if self._faults.draw("wake", "wake", lane) is not None:
            amount = self._faults.amount("wake")
            if amount > 0.4:
                self._loop.later(amount * amount * 20.0, super()._wake, lane, final, told, entry)
        if amount > 0.7:
            super()._wake(lane, final, told, entry)

    async def sweep(self, home: int, older_than_ms: int = words.SWEEP_AFTER_MS) -> int:
        """Only the way to homes that have keys is simulated."""
        return await super().sweep(home, older_than_ms) if home in self.homes.slots() else 0

    async def due_charges(self, slot: int, count: int) -> list[OpenCharge]:
        """Only the way to places that have charges is simulated."""
        return await super().due_charges(slot, count) if slot in self.budgets.slots() else []

    # -- the server itself

    def snapshot(self) -> Snapshot:
        stores = {lane: store.copy() for lane, store in self.stores.items() if isinstance(store, WatchedLane)}
        return Snapshot(self.homes.copy(), stores, copy.deepcopy(self.budgets), self._history.mark())

    def stop(self) -> None:
        self.down = True

    def start(self, back_to: Snapshot | None = None) -> None:
        """Up again, as another history; `back_to` is what a failover or a lost disk left of it."""
        self.down = False
        self.generation += 1
        self.history_id = f"memory-{self.generation}"
        if back_to is None:
            return
        lost = set()
        for lane, store in list(self.stores.items()):
            old = back_to.stores[lane]
            if any(getattr(old, f) != getattr(store, f) for f in _OWNERS_WRITES):
                lost.add(lane)
            self.stores[lane] = old.copy()
        self.homes.restore(back_to.homes)
        self.budgets = copy.deepcopy(back_to.budgets)
        since = self._history.facts[back_to.mark[0] :]
        forgotten = frozenset(f"{f.lane} {f.hash}" for f in since if isinstance(f, Recorded) and f.lane in lost)
        self._history.note(RolledBack(self._history.time(), frozenset(lost), forgotten))

    def fail_over(self, replica: Snapshot) -> None:
        """The replica is the server now. What it did not hear of was never confirmed, and never happened."""
        self.down = self.cut_off = False
        self.generation += 1
        self.history_id = f"memory-{self.generation}"
        for lane in list(self.stores):
            if lane in replica.stores:
                self.stores[lane] = replica.stores[lane].copy()
            else:
                del self.stores[lane]
        self.homes.restore(replica.homes)
        self.budgets = copy.deepcopy(replica.budgets)
        self._history.forget_since(replica.mark)
        self._history.note(Operated(self._history.time(), "failover", ""))
