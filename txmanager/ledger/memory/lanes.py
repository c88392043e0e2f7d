"""Lanes in memory: one queue, one owner, one cursor. Each method is one atomic step: checks first, writes last."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest

from txmanager.core.alerts import Check
from txmanager.core.errors import Fenced, NotAllowed, Refused, RolledBack
from txmanager.core.ledger import (
    APPEND_WITHIN_MS,
    SCHEMA,
    SHELVED_MS,
    TOMBSTONE_MS,
    Appended,
    Backlog,
    Entry,
    Gone,
    Landed,
    Lease,
    Renewed,
    Settled,
    Settlement,
    Taken,
    WriteAhead,
)
from txmanager.core.listing import Browsed, Mark, mark_of
from txmanager.core.models import (
    Attempt,
    Event,
    Fence,
    Intent,
    IntentId,
    Json,
    Lane,
    LaneSpec,
    Outcome,
    Purpose,
    Record,
)
from txmanager.core.positions import START, place
from txmanager.core.seal import BAD_SEAL
from txmanager.core.states import FINAL, LaneState, Status, lane_sources, sources
from txmanager.core.stops import LaneCommand, StopCause
from txmanager.ledger.inputs import outdated
from txmanager.ledger.memory import numbers
from txmanager.ledger.memory.numbers import Held
from txmanager.ledger.memory.quotas import Shares

MAX_EVENTS = 100_000
_FIRST = (Purpose.FIRST, Purpose.KEYLESS)


@dataclass(slots=True)
class Tombstone:
    life: str
    expires: int


@dataclass(slots=True)
class LaneStore:
    spec: LaneSpec
    history_id: str
    state: LaneState = LaneState.ACTIVE
    reason: str = ""
    cause: StopCause | None = None
    command: LaneCommand | None = None
    evidence: Mapping[str, Json] = field(default_factory=dict)
    owner: str = ""
    token: str = ""
    left: str = ""
    """The token that released the lane last: a repeated release is told from one that came too late."""
    epoch: int = 0
    lease_until: int = 0
    cursor: int | None = None
    baseline: int | None = None
    landed: int | None = None
    signed_upto: str = START
    last_id: str = START
    asks: int = 0
    check: Check = field(default_factory=Check)
    fills: dict[str, Attempt] = field(default_factory=dict)
    """No-ops at nonces of nobody, by attempt name."""
    kept: list[tuple[int, Landed]] = field(default_factory=list)
    """What was seen final, and when that was told; oldest first."""
    kept_until: int = 0
    schema: int = SCHEMA
    queue: dict[str, IntentId] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    """Stream ids handed to an owner and not settled: what XPENDING shows on Redis."""
    records: dict[IntentId, Record] = field(default_factory=dict)
    tombstones: dict[IntentId, Tombstone] = field(default_factory=dict)
    shares: Shares = field(default_factory=Shares)
    events: list[Event] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    """Keyless: what each token holds."""
    breaks: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    """What broke an owner: how often, the mark of the last break, and when that was."""
    shelf: dict[IntentId, tuple[int, str]] = field(default_factory=dict)
    """Final records that nobody could process: when, and the exception."""
    archive: int | None = None
    """How many final records wait for an archive at most."""
    archived: set[IntentId] = field(default_factory=set)
    """Final records that were acknowledged."""
    payloads: dict[IntentId, Mapping[str, Json]] = field(default_factory=dict)
    """Of final records that wait for an archive."""
    gone: dict[str, Gone] = field(default_factory=dict)
    """The backlog, by life."""
    lost: int = 0
    reuse: set[int] = field(default_factory=set)
    line: dict[str, int] = field(default_factory=dict)
    """Who waits for a turn, by ticket."""
    floor: int | None = None
    """The highest count the chain was seen at."""
    turn: str = ""
    turn_until: int = 0
    turn_fence: int = 0
    tickets: int = 0
    checked: int = 0
    used: int = 0
    """When it was registered, or its last number was handed out."""
    parked: bool = False

    # -- reading

    def view(self, now: int, found: str) -> Lane:
        oldest = next(iter(self.queue), None)
        return Lane(
            spec=self.spec,
            state=self.state,
            reason=self.reason,
            cause=self.cause,
            command=self.command,
            evidence=self.evidence,
            owner=self.owner,
            epoch=self.epoch,
            lease_ms=max(0, self.lease_until - now) if self.token else 0,
            cursor=self.cursor,
            baseline=self.baseline,
            landed=self.landed,
            signed_upto=self.signed_upto,
            last_id=self.last_id,
            depth=len(self.queue),
            unfinished=sum(
                1 for r in self.records.values() if not r.status.final and (r.attempts or r.status is Status.HELD)
            ),
            unretired=sum(1 for r in self.records.values() if r.status.final),
            oldest_ms=max(0, now - place(oldest)[0]) if oldest else 0,
            history_id=self.history_id,
            found_history_id=found,
            asks=self.asks,
            check=self.check,
            archive=self.archive,
            parked=self.parked,
            schema=self.schema,
        )

    def tombstone(self, id: IntentId, now: int) -> Tombstone | None:
        stone = self.tombstones.get(id)
        if stone is not None and stone.expires <= now:
            del self.tombstones[id]
            return None
        return stone

    def check_fence(self, fence: Fence) -> None:
        if (self.epoch, self.token) != (fence.epoch, fence.token):
            raise Fenced(self.spec.id, self.owner, self.epoch)

    # -- producers

    def append(self, entry: Entry, now: int) -> Appended:
        id = entry.intent.id
        if (stone := self.tombstone(id, now)) and stone.life == entry.life:
            return Appended("retired")
        if (record := self.records.get(id)) is not None:
            if record.life != entry.life:
                return Appended("other_life")
            return Appended("exists", record.position, record.status.value, len(self.queue), record.created_at)
        if entry.born < now - APPEND_WITHIN_MS:
            return Appended("stale")
        if entry.born > now + APPEND_WITHIN_MS:
            return Appended("ahead")
        if self.state is LaneState.CLOSED or self.parked:
            return Appended("closed")
        if len(self.queue) >= self.spec.queue_limit:
            return Appended("full", depth=len(self.queue))
        if (why := numbers.taken(self, entry.use)) is not None:
            return Appended(why, cursor=self.cursor)
        if self.shares.full(entry.share):
            assert entry.share is not None
            return Appended("no_room", room=self.shares.used(entry.share.owner))
        self.shares.take(id, entry.share)
        self.tombstones.pop(id, None)
        self.last_id = self._next_id(now)
        self.queue[self.last_id] = id
        self.records[id] = Record(
            intent=entry.intent,
            lane=self.spec.id,
            life=entry.life,
            status=Status.QUEUED,
            position=self.last_id,
            created_at=place(self.last_id)[0],
            updated_at=place(self.last_id)[0],
            seal=entry.seal,
        )
        self._event(id, Status.QUEUED, now)
        if entry.use is not None:
            numbers.bind(self, entry.use, id, now)
        return Appended("appended", self.last_id, Status.QUEUED.value, len(self.queue), place(self.last_id)[0])

    def cancel(self, id: IntentId, life: str, now: int) -> bool:
        """Whether it was there to be cancelled; a final or retired one is not."""
        record = self._record(id, life)
        if record is None or record.status.final:
            return False
        if record.status is Status.QUEUED or (record.status is Status.HELD and not record.attempts):
            self._finish(record, Outcome(Status.CANCELLED), now)
        elif not record.cancel_requested:
            self.asks += 1
            self.records[id] = replace(record, cancel_requested=True, updated_at=now)
        return True

    def resolve(self, id: IntentId, life: str, directive: Mapping[str, Json], now: int) -> bool:
        record = self._record(id, life)
        if record is None or record.status is not Status.HELD or not record.attempts:
            return False
        self.asks += record.directive != directive
        self.records[id] = replace(record, directive=directive, updated_at=now)
        return True

    # -- owners

    def lease(self, owner: str, token: str, lease_ms: int, now: int, found: str) -> Lease:
        if self.state is LaneState.CLOSED:
            return Lease("closed")
        if self.parked:
            return Lease("unknown")
        if self.schema > SCHEMA:
            return Lease("schema")
        if token != self.token:
            if self.token and self.lease_until > now:
                return Lease("held", owner=self.owner, left_ms=self.lease_until - now)
            self.epoch += 1
            self.owner, self.token = owner, token
        self.lease_until = now + lease_ms
        fence = Fence(self.spec.id, self.owner, self.epoch, self.token)
        return Lease("leased", fence, self.view(now, found), self.owner, lease_ms)

    def renew(self, fence: Fence, lease_ms: int, now: int, found: str) -> Renewed:
        if (self.epoch, self.token) != (fence.epoch, fence.token):
            return Renewed("fenced", owner=self.owner, epoch=self.epoch)
        self.lease_until = now + lease_ms
        return Renewed(
            "renewed", len(self.queue), self.state, self.asks, self.history_id != found, self.owner, self.epoch
        )

    def release(self, fence: Fence) -> bool:
        if (self.epoch, self.token) != (fence.epoch, fence.token):
            return (self.epoch, self.left) == (fence.epoch, fence.token)
        self.left = self.token
        self.token, self.owner, self.lease_until = "", "", 0
        return True

    def park(self, fence: Fence, idle_ms: int, now: int) -> int:
        if self.parked and (self.epoch, self.left) == (fence.epoch, fence.token):
            return 0
        self.check_fence(fence)
        numbers.expire(self, now)
        told = place(self.events[-1].id)[0] if self.events else 0
        used = max(self.used, place(self.last_id)[0], told)
        if not self.spec.keyless or self.state is not LaneState.ACTIVE or self.held or self.forget_obstacle():
            return max(1, idle_ms)
        if used + idle_ms > now:
            return used + idle_ms - now
        self.parked, self.signed_upto, self.last_id = True, START, START
        self.release(fence)
        return 0

    def set_baseline(self, fence: Fence, cursor: int, operator: bool) -> int:
        self.check_fence(fence)
        if self.cursor is None:
            self.cursor = self.baseline = cursor
        elif operator:
            self.cursor, self.baseline = max(self.cursor, cursor), max(self.baseline or 0, cursor)
        return self.cursor

    def vouch(self, fence: Fence, stored: str, found: str) -> bool:
        self.check_fence(fence)
        if self.history_id == stored:
            self.history_id = found
        return self.history_id == found

    def take(self, fence: Fence, count: int) -> list[Taken]:
        self.check_fence(fence)
        if self.state not in (LaneState.ACTIVE, LaneState.DRAINING):
            return []
        taken = []
        for position in self._after_signed(count):
            self.pending.add(position)
            record = self.records[self.queue[position]]
            at = place(position)[0]
            taken.append(Taken(record.intent, record.life, position, at, record.seal))
        return taken

    def newest(self, before: str) -> Taken | None:
        """What a wake-up may carry of what was appended after `before`: one entry, with nothing unsigned before it."""
        news = list(islice((sid for sid in reversed(self.queue) if place(sid) > place(before)), 2))
        if len(news) != 1 or before != self.signed_upto or self.spec.keyless or self.schema < 2:
            return None
        record = self.records[self.queue[news[0]]]
        at = place(news[0])[0]
        return Taken(record.intent, record.life, news[0], at, record.seal, digest=_digest(record))

    def fill(
        self,
        fence: Fence,
        attempts: Sequence[Attempt],
        done: Sequence[str],
        found: str,
        landed: Sequence[Record],
        now: int,
    ) -> list[Attempt]:
        self.check_fence(fence)
        new = [attempt for attempt in attempts if attempt.name not in self.fills]
        if new and self.history_id != found:
            raise RolledBack(self.spec.id, self.history_id, found)
        if new and self.state is LaneState.QUARANTINED:
            raise Refused(self.spec.id, "the lane is quarantined")
        for attempt in new:
            if self.cursor is None or attempt.nonce >= self.cursor:
                raise Refused(attempt.name, "is not below the cursor")
        for record in landed if self.archive is not None else ():
            if record.attempts[0].name in self.fills:
                self.records[record.id] = replace(record, position=f"{now}-0", created_at=now, updated_at=now)
                self.payloads[record.id] = {}
        for name in done:
            self.fills.pop(name, None)
        self.fills |= {attempt.name: attempt for attempt in new}
        return sorted(self.fills.values(), key=lambda a: (a.nonce, a.signed_at, a.hash))

    def keep(self, fence: Fence, landed: Sequence[Landed], now: int, keep_ms: int, most_bytes: int) -> None:
        self.check_fence(fence)
        before = self.kept if now < self.kept_until else []
        self.kept = [(at, one) for at, one in before if at >= now - keep_ms] + [(now, one) for one in landed]
        self.kept_until = now + keep_ms
        while sum(len(one.raw) for _, one in self.kept) > most_bytes:
            del self.kept[0]

    def still_kept(self, since: int, now: int) -> list[Landed]:
        found = {one.hash: one for _, one in self.kept if one.nonce >= since} if now < self.kept_until else {}
        return sorted(found.values(), key=lambda one: one.nonce)

    def ask(self, check: Check) -> None:
        self.asks += self.check != check
        self.check = check

    def unfinished(self, fence: Fence) -> list[Record]:
        self.check_fence(fence)
        return self.in_flight()

    def in_flight(self) -> list[Record]:
        found = [r for r in self.records.values() if r.attempts and not r.status.final]
        return sorted(found, key=lambda r: min(a.nonce for a in r.attempts))

    def browse(self, before: Mark | None, count: int) -> Browsed:
        found = [r for r in self.records.values() if before is None or mark_of(r) < before]
        found.sort(key=mark_of, reverse=True)
        shown = tuple(self.whole(r) for r in found[:count])
        return Browsed(shown, mark_of(found[count - 1]) if len(found) > count else None)

    def record_attempts(self, fence: Fence, cursor: int, batch: Sequence[WriteAhead], now: int, found: str) -> int:
        self.check_fence(fence)
        if batch and all(self._recorded(write) for write in batch):
            assert self.cursor is not None
            return self.cursor
        if self.history_id != found:
            raise RolledBack(self.spec.id, self.history_id, found)
        self._check_state(batch)
        if not self.spec.keyless and (self.cursor is None or self.cursor != cursor):
            at = "nothing" if self.cursor is None else self.cursor
            raise Refused("cursor", f"stands at {at}, not at {cursor}")
        top = cursor
        firsts = [w for w in batch if w.attempt.purpose in _FIRST]
        for write, oldest in zip_longest(firsts, self._after_signed(len(firsts))):
            if write.position != oldest:
                raise Refused(str(write.id), "not the oldest queued entries")
            if write.digest and write.digest != _digest(self.records[self.queue[oldest]]):
                raise Refused(str(write.id), "not what its wake-up said")
        seen: set[IntentId] = set()
        for write in batch:
            top = self._check_attempt(write, top, seen)
        for write in batch:
            self._write_attempt(write, now)
        if not self.spec.keyless:
            self.cursor = top
        if firsts:
            self.signed_upto = firsts[-1].position
        assert self.cursor is not None
        return self.cursor

    def settle(
        self,
        fence: Fence,
        batch: Sequence[Settlement],
        landed: int | None,
        now: int,
        keep_home: Callable[[Record], object] | None = None,
    ) -> list[Settled]:
        """With `keep_home` an end that may go home at once does so, and leaves its tombstone."""
        self.check_fence(fence)
        answers = []
        for item in batch:
            record = self.records.get(item.id)
            if record is None or record.life != item.life:
                answers.append(Settled("gone"))
            elif record.status.final:
                same = record.status is item.outcome.status
                answers.append(Settled("already" if same else "conflict", record.status.value))
            elif record.status not in sources(item.outcome.status) or not self._proven(record, item):
                answers.append(Settled("refused", record.status.value))
            else:
                attempts = tuple(
                    a.with_proof(item.deaths[a.name]) if a.name in item.deaths else a for a in record.attempts
                )
                self._finish(replace(record, attempts=attempts), item.outcome, now)
                final = item.final if self.archive is None else None
                if keep_home is not None and final is not None:
                    final = replace(final, updated_at=now)
                    keep_home(final)
                    self.bury(final, now)
                retired = record.id not in self.records
                answers.append(Settled("settled", item.outcome.status.value, now, retired))
        if landed is not None and (self.landed is None or landed > self.landed):
            self.landed = landed
        return answers

    def hold(self, fence: Fence, id: IntentId, life: str, hold: Mapping[str, Json], now: int) -> bool:
        self.check_fence(fence)
        record = self.records.get(id)
        if record is None or record.life != life:
            return False
        if record.status is Status.HELD:
            return True
        if record.status is not Status.INFLIGHT:
            return False
        self.records[id] = replace(record, status=Status.HELD, hold=hold, updated_at=now)
        self._event(id, Status.HELD, now, error=str(hold["reason"]))
        return True

    def set_aside(self, fence: Fence, entry: Taken, hold: Mapping[str, Json], now: int) -> bool:
        self.check_fence(fence)
        record = self.records.get(entry.intent.id)
        own = record is not None and record.position == entry.position
        if own and record is not None and record.status is not Status.QUEUED:
            return record.status is Status.HELD
        self.queue.pop(entry.position, None)
        self.pending.discard(entry.position)
        if record is None or not own:
            return False
        self.records[record.id] = replace(
            record, intent=entry.intent, seal=entry.seal, status=Status.HELD, hold=hold, updated_at=now
        )
        self._event(record.id, Status.HELD, now, error=str(hold["reason"]))
        return True

    def reseal(self, sealed: Record, seal: str, now: int) -> bool:
        record = self._record(sealed.id, sealed.life)
        if record is None or record.status is not Status.HELD or (record.hold or {}).get("reason") != BAD_SEAL:
            return False
        status = Status.INFLIGHT if record.attempts else Status.QUEUED
        if status is Status.QUEUED:
            self.last_id = self._next_id(now)
            self.queue[self.last_id] = record.id
            record = replace(record, position=self.last_id)
        self.asks += 1
        self.records[record.id] = replace(record, status=status, hold=None, seal=seal, updated_at=now)
        self._event(record.id, status, now)
        return True

    def broke(self, fence: Fence, what: str, mark: str, forget_ms: int, now: int) -> int:
        self.check_fence(fence)
        count, last, at = self.breaks.get(what, (0, "", now))
        if last != mark:
            count = count + 1 if now - at < forget_ms else 1
            self.breaks[what] = (count, mark, now)
        return count

    def answer(self, fence: Fence, id: IntentId, life: str) -> bool:
        self.check_fence(fence)
        record = self.records.get(id)
        if record is None or record.life != life:
            return False
        self.records[id] = replace(record, directive=None)
        return True

    # -- final records and the lane itself

    def bury(self, record: Record, now: int) -> bool:
        """Replace a final record by a tombstone, comparing life and final state."""
        stored = self.records.get(record.id)
        if stored is None or stored.life != record.life or stored.status is not record.status:
            return False
        if self._waits(stored):
            if not self._too_many_wait():
                return False
            self.gone[record.life] = Gone(record.id, record.life, now)
        del self.records[record.id]
        self.archived.discard(record.id)
        self.payloads.pop(record.id, None)
        self.shelf.pop(record.id, None)
        self.tombstones[record.id] = Tombstone(record.life, now + TOMBSTONE_MS)
        return True

    def unretired(self, count: int, now: int) -> list[Record]:
        shelf = {id for id, (at, _) in self.shelf.items() if now - at < SHELVED_MS}
        found = [r for r in self.records.values() if r.status in FINAL and r.id not in shelf]
        return found[:count] if self._too_many_wait() else [r for r in found if not self._waits(r)][:count]

    # -- archives

    def _waits(self, record: Record) -> bool:
        """Whether a final record stays until an archive has it."""
        return self.archive is not None and record.id not in self.archived

    def _too_many_wait(self) -> bool:
        waiting = (r for r in self.records.values() if r.status in FINAL and r.id not in self.archived)
        return self.archive is not None and sum(1 for _ in waiting) > self.archive

    def forget_gone(self, before: int) -> None:
        """What its home forgot cannot be archived any more."""
        late = [life for life, one in self.gone.items() if one.at < before]
        self.lost += len(late)
        for life in late:
            del self.gone[life]

    def set_archive(self, max_lag: int | None) -> None:
        self.archive = max_lag
        if max_lag is None:
            self.gone, self.lost = {}, 0

    def whole(self, record: Record) -> Record:
        """With the payload that a final record keeps for an archive."""
        payload = self.payloads.get(record.id)
        return record if payload is None else replace(record, intent=replace(record.intent, payload=payload))

    def unarchived(self, count: int) -> list[Record]:
        waiting = (r for r in self.records.values() if r.status in FINAL and r.id not in self.archived)
        return [self.whole(r) for r in islice(waiting, count)]

    def acknowledge(self, id: IntentId, life: str) -> bool:
        if self.gone.pop(life, None) is not None:
            return True
        record = self._record(id, life)
        if record is None or not record.status.final or id in self.archived:
            return False
        self.payloads.pop(id, None)
        self.archived.add(id)
        return True

    def backlog(self, count: int) -> Backlog:
        oldest = sorted(self.gone.values(), key=lambda one: (one.at, one.life))
        return Backlog(tuple(oldest[:count]), self.lost)

    def set_state(
        self,
        state: LaneState,
        reason: str,
        evidence: Mapping[str, Json],
        fence: Fence | None,
        cause: StopCause | None = None,
        command: LaneCommand | None = None,
        asks: int | None = None,
    ) -> None:
        if fence is not None:
            self.check_fence(fence)
        if self.state is not state:
            if self.state not in lane_sources(state):
                raise NotAllowed(f"lane {self.spec.id} is {self.state}; it cannot become {state}")
            if state is LaneState.CLOSED and self.records:
                raise NotAllowed(f"lane {self.spec.id} still holds {len(self.records)} records; drain it first")
        said = (self.state, self.reason, self.cause, self.command, self.evidence)
        if said == (state, reason, cause, command, evidence) and not self.parked:
            return
        if asks is not None and asks != self.asks:
            raise outdated(self.spec.id)
        self.asks += 1
        self.state, self.reason, self.cause, self.command, self.evidence = state, reason, cause, command, evidence
        self.parked = False

    def forget_obstacle(self) -> str:
        """What of a keyless lane may still matter."""
        if self.records or self.queue or self.fills or self.gone:
            return "records"
        live = [held for held in self.held.values() if held.state in ("reserved", "waiting", "sent")]
        if any(held.state == "sent" and (self.landed is None or held.nonce > self.landed) for held in live):
            return "sent"
        return "reserved" if any(held.state != "sent" for held in live) else ""

    # -- inside

    def _next_id(self, now: int) -> str:
        ms, sequence = place(self.last_id)
        return f"{now}-0" if now > ms else f"{ms}-{sequence + 1}"

    def _after_signed(self, count: int) -> list[str]:
        upto = place(self.signed_upto)
        return list(islice((sid for sid in self.queue if place(sid) > upto), count))

    def _recorded(self, write: WriteAhead) -> bool:
        record = self.records.get(write.id)
        return (
            record is not None
            and record.life == write.life
            and any(a.name == write.attempt.name for a in record.attempts)
        )

    def _check_state(self, batch: Sequence[WriteAhead]) -> None:
        for write in batch:
            if (write.attempt.purpose is Purpose.KEYLESS) is not self.spec.keyless:
                raise Refused(str(write.id), f"is {write.attempt.purpose}, which this lane does not take")
        if self.state is LaneState.QUARANTINED:
            raise Refused(self.spec.id, "the lane is quarantined")
        if self.state is LaneState.PAUSED and any(w.attempt.purpose in _FIRST for w in batch):
            raise Refused(self.spec.id, "the lane is paused")

    def _check_attempt(self, write: WriteAhead, top: int, seen: set[IntentId]) -> int:
        """Check one attempt by its purpose; answers the cursor after it."""
        record = self.records.get(write.id)
        if record is None or record.life != write.life:
            raise Refused(str(write.id), "no such record")
        if write.id in seen:
            raise Refused(str(write.id), "is in the batch twice")
        seen.add(write.id)
        nonce, purpose = write.attempt.nonce, write.attempt.purpose
        if purpose in _FIRST:
            if record.status is not Status.QUEUED:
                raise Refused(str(write.id), f"is {record.status}, not queued")
        elif record.status is not Status.INFLIGHT and (record.status is not Status.HELD or purpose is Purpose.REPLACE):
            raise Refused(str(write.id), f"is {record.status}, not inflight")
        if record.status is Status.HELD and record.directive is None and not record.cancel_requested:
            raise Refused(str(write.id), "is held, and nobody asked for an attempt")
        if purpose is Purpose.RESIGN and any(a.name not in write.deaths for a in record.live):
            raise Refused(str(write.id), "has an attempt that is not proven dead")
        shares = any(a.nonce == nonce for a in record.attempts)
        rivals = [a for a in record.live if a.nonce == nonce and a.name not in write.deaths]
        if purpose is Purpose.REPLACE and not rivals:
            raise Refused(str(write.id), f"has no live attempt at nonce {nonce} to replace")
        if purpose is Purpose.KEYLESS or (purpose in (Purpose.REPLACE, Purpose.NOOP) and shares):
            return top
        if nonce < top:
            raise Refused(str(write.id), f"nonce {nonce} is below the cursor")
        return nonce + 1

    def _write_attempt(self, write: WriteAhead, now: int) -> None:
        record = self.records[write.id]
        known = tuple(a.with_proof(write.deaths[a.name]) if a.name in write.deaths else a for a in record.attempts)
        noop = write.attempt.purpose is Purpose.NOOP
        self.records[write.id] = replace(
            record,
            status=record.status if noop else Status.INFLIGHT,
            attempts=tuple(sorted((*known, write.attempt), key=lambda a: (a.nonce, a.signed_at, a.hash))),
            hold=record.hold if noop else None,
            resigns=record.resigns + write.counted,
            updated_at=now,
        )
        self.pending.add(write.position)
        if record.status is not Status.INFLIGHT and not noop:
            self._event(write.id, Status.INFLIGHT, now, tx_hash=write.attempt.hash)

    @staticmethod
    def _proven(record: Record, item: Settlement) -> bool:
        """`done` names the attempt that landed; any other end needs that too, or every effect proven dead."""
        outcome = item.outcome
        if outcome.tx_hash is not None:
            return outcome.status is not Status.CANCELLED and any(
                a.name == f"{outcome.nonce}:{outcome.tx_hash}" for a in record.effects
            )
        if outcome.status is Status.DONE:
            return False
        return all(a.dead or a.name in item.deaths for a in record.effects)

    def _finish(self, record: Record, outcome: Outcome, now: int) -> Record:
        """Every exit from the queue: outcome, XACK, XDEL and event in one step."""
        self.queue.pop(record.position, None)
        self.pending.discard(record.position)
        self.shares.give_back(record.id)
        if self.archive is not None:
            self.payloads[record.id] = record.intent.payload
        bare: Intent = replace(record.intent, payload={})
        final = replace(
            record, intent=bare, status=outcome.status, outcome=outcome, updated_at=now, directive=None, seal=""
        )
        self.records[record.id] = final
        error = str(outcome.error["code"]) if outcome.error else None
        self._event(record.id, outcome.status, now, tx_hash=outcome.tx_hash, error=error)
        return final

    def _record(self, id: IntentId, life: str) -> Record | None:
        record = self.records.get(id)
        return record if record is not None and record.life == life else None

    def _event(
        self, id: IntentId, status: Status, now: int, tx_hash: str | None = None, error: str | None = None
    ) -> None:
        ms, sequence = place(self.events[-1].id) if self.events else (0, 0)
        event_id = f"{now}-0" if now > ms else f"{ms}-{sequence + 1}"
        self.events.append(Event(event_id, id, self.spec.id, status, now, tx_hash, error))
        del self.events[:-MAX_EVENTS]


def _digest(record: Record) -> str:
    """Of all that an owner reads of a queued intent."""
    return hashlib.sha1(repr((record.intent, record.life, record.seal)).encode(), usedforsecurity=False).hexdigest()
