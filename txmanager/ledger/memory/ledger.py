"""`MemoryLedger`: the async face of homes and lanes in one process.

Home and lane steps are separate awaits, as on Redis, so that everything that can happen between them can happen here
too; with `one_step` a new key is claimed and appended at once, and an end goes home at once, as on a single server.
`hop` is awaited before and after each step: a test or the simulator loses requests and replies there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from txmanager.core.alerts import Alert, Check
from txmanager.core.audit import ALL_TENANTS, AUDIT_LIMIT, AuditEntry
from txmanager.core.budgets import (
    Budget,
    Charge,
    Charged,
    Correction,
    OpenCharge,
    Usage,
    check_charges,
    corrections,
)
from txmanager.core.errors import Fenced, LaneClosed, NotAllowed, NotFound, RolledBack
from txmanager.core.ledger import (
    ACCEPT_NEEDS_RETENTION_MS,
    SCHEMA,
    SWEEP_AFTER_MS,
    Appended,
    Backlog,
    Claim,
    Claimed,
    Entry,
    Landed,
    Lease,
    Member,
    Renewed,
    Route,
    Settled,
    Settlement,
    Taken,
    WriteAhead,
)
from txmanager.core.listing import Browsed, Mark
from txmanager.core.models import Attempt, Event, Fence, IntentId, Json, Lane, LaneSpec, Record
from txmanager.core.positions import START
from txmanager.core.quotas import Drawn, Room
from txmanager.core.reservations import Book, Cap, Recycled, Reserved, Turn
from txmanager.core.sessions import (
    CODE_MS,
    CODES_LIMIT,
    SESSION_MS,
    SESSIONS_LIMIT,
    Session,
    check_digests,
    shown_origin,
)
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand, StopCause
from txmanager.ledger.bells import Bells
from txmanager.ledger.inputs import (
    check_forgettable,
    check_numbers,
    check_one_step,
    check_retirable,
    check_settlement,
    check_sort,
    check_stop,
    check_token,
)
from txmanager.ledger.memory import numbers
from txmanager.ledger.memory.audit import AuditStore
from txmanager.ledger.memory.budgets import BudgetStore
from txmanager.ledger.memory.homes import Homes
from txmanager.ledger.memory.lanes import LaneStore
from txmanager.ledger.memory.mailbox import MemoryMailbox
from txmanager.ledger.memory.quotas import Buckets
from txmanager.ledger.memory.sessions import SessionStore
from txmanager.ledger.restoring import restored

T = TypeVar("T")
Hop = Callable[[str, str], Awaitable[None]]
"""`hop(operation, "request" | "reply")`, awaited on the way to and from the store."""

DAY_MS = 24 * 3600 * 1000
_ALIASES = 8
"""An alias names a key that is no alias; a longer chain is two callers' keys that name each other."""


def _unsure(read: Sequence[Record | None]) -> bool:
    """Whether an end was read that only the ledger knows: told once it is durable, or a failover could revoke it."""
    ends = (record.outcome for record in read if record is not None and record.status.final)
    return any(end is not None and end.tx_hash is None for end in ends)


async def _yield(_operation: str, _side: str) -> None:
    await asyncio.sleep(0)


class MemoryLedger:
    def __init__(
        self,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        retention_ms: int = 7 * DAY_MS,
        hop: Hop = _yield,
        vouches: bool = True,
        one_step: bool = True,
    ) -> None:
        self.vouches = vouches
        self._together = one_step
        self._one_step = one_step and retention_ms >= ACCEPT_NEEDS_RETENTION_MS
        self._clock = clock
        self._retention_ms = retention_ms
        self._hop = hop
        self.history_id = "memory"
        self.mailbox = MemoryMailbox(clock)
        self.homes = Homes()
        self.audits = AuditStore()
        self.buckets = Buckets()
        self.budgets = BudgetStore()
        self.logins = SessionStore()
        self.stores: dict[str, LaneStore] = {}
        self._members: dict[str, tuple[Member, int]] = {}
        self._made: dict[str, set[str]] = {}
        self._rung: set[str] = set()
        self._bells: dict[asyncio.Event, set[str]] = {}
        self._carried: dict[str, Taken] = {}
        """The entry that came with a ring. A second ring before it is asked for takes it away."""
        self._finals: dict[IntentId, set[asyncio.Future[Record | None]]] = {}
        self._told = Bells()

    async def _step(self, operation: str, step: Callable[[int], T], *, durable: bool = False) -> T:
        """`durable`: the caller will act on it; a server would wait for its replicas here, memory has none."""
        await self._hop(operation, "request")
        result = step(self._clock())
        await self._hop(operation, "reply")
        return result

    def _store(self, lane: str) -> LaneStore:
        store = self.stores.get(lane)
        if store is None:
            raise NotFound(f"no lane {lane}")
        return store

    def _fenced(self, fence: Fence) -> LaneStore:
        """A lane that is not there has another owner: nobody."""
        store = self.stores.get(fence.lane)
        if store is None:
            raise Fenced(fence.lane, "", 0)
        return store

    # -- producers

    async def claim(self, claims: Sequence[Claim]) -> list[Claimed]:
        return await self._step("claim", lambda now: [self.homes.claim(c, now) for c in claims], durable=True)

    async def append(self, lane: str, entries: Sequence[Entry]) -> list[Appended]:
        def step(now: int) -> list[Appended]:
            store = self.stores.get(lane)
            if store is None:
                return [Appended("closed") for _ in entries]
            before = store.last_id
            answers = [self._append(store, entry, now) for entry in entries]
            self._wake(lane, entry=store.newest(before))
            return answers

        return await self._step("append", step, durable=True)

    def _append(self, store: LaneStore, entry: Entry, now: int) -> Appended:
        """Where homes are at hand, one that has the answer refuses an append as a tombstone does."""
        id = entry.intent.id
        if self._together and id not in store.records and store.tombstone(id, now) is None:
            home = self.homes.get(id, now)
            if home is not None and home.record is not None and home.life == entry.life:
                return Appended("retired")
        return store.append(entry, now)

    def born_now(self) -> int | None:
        return self._clock() if self._one_step else None

    async def accept(self, lane: str, entries: Sequence[Entry]) -> list[Appended]:
        check_one_step(self._one_step)

        def step(now: int) -> list[Appended]:
            store = self.stores.get(lane)
            before = store.last_id if store is not None else START
            answers = [self._accept(lane, entry, now) for entry in entries]
            self._wake(lane, entry=store.newest(before) if store is not None else None)
            return answers

        return await self._step("accept", step, durable=True)

    def _accept(self, lane: str, entry: Entry, now: int) -> Appended:
        store, intent = self.stores.get(lane), entry.intent
        if self.homes.get(intent.id, now) is not None:
            return Appended("known")
        if store is None:
            return Appended("closed")
        answer = store.append(entry, now)
        if answer.word == "appended":
            self.homes.claim(Claim(intent.id, intent.fingerprint, lane, entry.life), now)
        return answer

    async def move(self, id: IntentId, life: str, old_lane: str, new_lane: str) -> Claimed:
        return await self._step("move", lambda now: self.homes.move(id, life, old_lane, new_lane, now), durable=True)

    async def alias(self, id: IntentId, fingerprint: str, target: IntentId) -> Claimed:
        return await self._step("alias", lambda now: self.homes.alias(id, fingerprint, target, now), durable=True)

    async def read(self, id: IntentId) -> Record | None:
        seen, aliases = "", 0
        while True:
            home = await self._step("read", lambda now, id=id: self.homes.get(id, now))  # type: ignore[misc]
            if home is None:
                return None
            if home.alias_of is not None:
                id, aliases = home.alias_of, aliases + 1
                if aliases > _ALIASES:
                    return None
                continue
            if home.record is not None:
                if _unsure([home.record]):
                    home = await self._step("read", lambda now, id=id: self.homes.get(id, now), durable=True)  # type: ignore[misc]
                    if home is None or home.record is None:
                        continue
                return home.record
            lane, life = home.lane, home.life
            record = await self._read_lane("read", lane, id)
            if record is not None and record.life == life:
                return record
            if seen == life + lane:
                return None
            seen = life + lane  # retired between the two reads: the home knows now

    async def _read_lane(self, operation: str, lane: str, id: IntentId) -> Record | None:
        def step(_: int) -> Record | None:
            return self._lane_record(lane, id)

        record = await self._step(operation, step)
        return await self._step(operation, step, durable=True) if _unsure([record]) else record

    def _lane_record(self, lane: str, id: IntentId) -> Record | None:
        store = self.stores.get(lane)
        return store.records.get(id) if store else None

    async def cancel(self, id: IntentId) -> Record:
        while not (record := await self._found(id)).status.final:
            before = record

            def step(now: int, before: Record = before) -> bool:
                store = self._store(before.lane)
                unsigned = before.status is Status.QUEUED or not before.attempts
                if unsigned and not self.vouches and store.history_id != self.history_id:
                    # it may have been signed, and the ledger forgot it
                    raise RolledBack(before.lane, store.history_id, self.history_id)
                asked = store.cancel(before.id, before.life, now)
                self._wake(before.lane, before.id if asked and store.records[before.id].status.final else None)
                return asked

            if await self._step("cancel", step, durable=True):
                return await self._found(id)
        if record.status is not Status.CANCELLED:
            raise NotAllowed(f"intent {record.id.key!r} is {record.status} already; its result stands")
        return record

    async def resolve(self, id: IntentId, directive: Mapping[str, Json]) -> Record:
        record = await self._found(id)
        if record.status.final:  # told already, though a failover may have forgotten that it ended in its lane
            raise NotAllowed(f"intent {record.id.key!r} is {record.status}, only a held one can be resolved")

        def step(now: int) -> bool:
            self._wake(record.lane)
            return self._store(record.lane).resolve(record.id, record.life, directive, now)

        asked = await self._step("resolve", step, durable=True)
        record = await self._found(id)
        if not asked:
            raise NotAllowed(f"intent {record.id.key!r} is {record.status}, only a held one can be resolved")
        return record

    async def reseal(self, record: Record, seal: str) -> bool:
        def step(now: int) -> bool:
            self._wake(record.lane)
            return self._store(record.lane).reseal(record, seal, now)

        return await self._step("reseal", step, durable=True)

    async def _found(self, id: IntentId) -> Record:
        record = await self.read(id)
        if record is None:
            raise NotFound(f"no intent {id.key!r} in pool {id.pool!r}")
        return record

    # -- owners

    async def lease(self, lane: str, owner: str, token: str, lease_ms: int) -> Lease:
        check_token(token)

        def step(now: int) -> Lease:
            store = self.stores.get(lane)
            if store is None:
                return Lease("unknown")
            return store.lease(owner, token, lease_ms, now, self.history_id)

        return await self._step("lease", step)

    async def renew(self, fences: Sequence[Fence], lease_ms: int) -> list[Renewed]:
        def step(now: int) -> list[Renewed]:
            stores = [self.stores.get(f.lane) for f in fences]
            return [
                s.renew(f, lease_ms, now, self.history_id) if s else Renewed("fenced")
                for f, s in zip(fences, stores, strict=True)
            ]

        return await self._step("renew", step)

    async def release(self, fence: Fence) -> bool:
        def step(_: int) -> bool:
            store = self.stores.get(fence.lane)
            return store is not None and store.release(fence)

        return await self._step("release", step)

    async def park(self, fence: Fence, idle_ms: int) -> int:
        return await self._step("park", lambda now: self._fenced(fence).park(fence, idle_ms, now), durable=True)

    async def baseline(self, fence: Fence, cursor: int, *, operator: bool = False) -> int:
        return await self._step(
            "baseline", lambda _: self._fenced(fence).set_baseline(fence, cursor, operator), durable=True
        )

    async def vouch(self, fence: Fence, stored: str, found: str) -> bool:
        return await self._step("vouch", lambda _: self._fenced(fence).vouch(fence, stored, found))

    async def take(self, fence: Fence, count: int) -> list[Taken]:
        return await self._step("take", lambda _: self._fenced(fence).take(fence, count))

    async def unfinished(self, fence: Fence) -> list[Record]:
        # A new owner sends what it finds here: not what a failover could still take back from its predecessor.
        return await self._step("unfinished", lambda _: self._fenced(fence).unfinished(fence), durable=True)

    async def record_attempts(self, fence: Fence, cursor: int, batch: Sequence[WriteAhead]) -> int:
        return await self._step(
            "record_attempts",
            lambda now: self._fenced(fence).record_attempts(fence, cursor, batch, now, self.history_id),
            durable=True,
        )

    async def settle(self, fence: Fence, batch: Sequence[Settlement], landed: int | None = None) -> list[Settled]:
        for item in batch:
            check_settlement(item)
        batch = [replace(item, final=None) if item.final and corrections(item.final) else item for item in batch]

        # an outcome seen on chain can be seen again; one that only we know must not be lost, nor rest on what was
        unseen = any(item.outcome.tx_hash is None for item in batch)

        def keep_home(now: int) -> Callable[[Record], bool]:
            return lambda final: self.homes.retire(final, self._retention_ms, now)

        def step(now: int) -> list[Settled]:
            store = self._fenced(fence)
            if unseen and store.history_id != self.history_id:
                store.check_fence(fence)
                raise RolledBack(fence.lane, store.history_id, self.history_id)
            answers = store.settle(fence, batch, landed, now, keep_home(now) if self._together else None)
            for item, answer in zip(batch, answers, strict=True):
                home = self.homes.get(item.id, now)
                # an end that no chain shows again may be taken back: it is read, where it is durable
                travels = answer.retired and home is not None and item.outcome.tx_hash is not None
                self._wake(fence.lane, item.id, home.record if home is not None and travels else None)
            return answers

        return await self._step("settle", step, durable=unseen)

    async def hold(self, fence: Fence, id: IntentId, life: str, reason: str, evidence: Mapping[str, Json]) -> bool:
        held = {"reason": reason, "evidence": evidence}
        return await self._step("hold", lambda now: self._fenced(fence).hold(fence, id, life, held, now))

    async def set_aside(self, fence: Fence, entry: Taken, reason: str, evidence: Mapping[str, Json]) -> bool:
        held = {"reason": reason, "evidence": evidence}
        return await self._step("set_aside", lambda now: self._fenced(fence).set_aside(fence, entry, held, now))

    async def broke(self, fence: Fence, what: str, mark: str, error: str, forget_ms: int) -> int:
        return await self._step("broke", lambda now: self._fenced(fence).broke(fence, what, mark, forget_ms, now))

    async def answer(self, fence: Fence, id: IntentId, life: str) -> bool:
        return await self._step("answer", lambda _: self._fenced(fence).answer(fence, id, life))

    async def fill(
        self,
        fence: Fence,
        attempts: Sequence[Attempt] = (),
        done: Sequence[str] = (),
        landed: Sequence[Record] = (),
    ) -> list[Attempt]:
        return await self._step(
            "fill",
            lambda now: self._fenced(fence).fill(fence, attempts, done, self.history_id, landed, now),
            durable=True,
        )

    async def keep(self, fence: Fence, landed: Sequence[Landed], keep_ms: int, most_bytes: int) -> None:
        await self._step("keep", lambda now: self._fenced(fence).keep(fence, landed, now, keep_ms, most_bytes))

    async def kept(self, lane: str, since: int = 0) -> list[Landed]:
        return await self._step("kept", lambda now: self.stores[lane].still_kept(since, now))

    # -- watchers

    async def pending(self, lane: str) -> list[Record]:
        return await self._step("pending", lambda _: self.stores[lane].in_flight() if lane in self.stores else [])

    async def browse(self, lane: str, before: Mark | None, count: int) -> Browsed:
        def step(_: int) -> Browsed:
            return self.stores[lane].browse(before, count) if lane in self.stores else Browsed(())

        return await self._step("browse", step)

    async def check(self, lane: str, name: str, alerts: Collection[Alert] = ()) -> bool:
        def step(_: int) -> bool:
            store = self.stores.get(lane)
            if store is None:
                return False
            store.ask(Check(name, frozenset(alerts)))
            self._wake(lane)
            return True

        return await self._step("check", step)

    # -- keyless lanes

    async def reserve(
        self,
        lane: str,
        token: str,
        ttl_ms: int,
        chain_nonce: int | None = None,
        seed: int | None = None,
        cap: Cap | None = None,
    ) -> Reserved:
        check_numbers(token, ttl_ms, chain_nonce, seed)

        def step(now: int) -> Reserved:
            return numbers.reserve(self._store(lane), token, ttl_ms, chain_nonce, seed, now, self.history_id, cap)

        return await self._step("reserve", step, durable=True)

    async def turn(
        self,
        lane: str,
        token: str,
        ttl_ms: int,
        chain_nonce: int | None = None,
        seed: int | None = None,
        cap: Cap | None = None,
    ) -> Turn:
        check_numbers(token, ttl_ms, chain_nonce, seed)

        def step(now: int) -> Turn:
            return numbers.turn(self._store(lane), token, ttl_ms, chain_nonce, seed, now, self.history_id, cap)

        return await self._step("turn", step, durable=True)

    async def recycle(self, lane: str, token: str) -> Recycled:
        return await self._step("recycle", lambda now: numbers.recycle(self._store(lane), token, now), durable=True)

    async def unlock(self, lane: str, token: str) -> Recycled:
        def step(now: int) -> Recycled:
            return numbers.recycle(self._store(lane), token, now, unlock=True)

        return await self._step("unlock", step, durable=True)

    async def expire(self, lane: str) -> int:
        return await self._step("expire", lambda now: numbers.expire(self._store(lane), now))

    async def reclaim(self, fence: Fence, chain_nonce: int, nonces: Sequence[int]) -> int:
        def step(_: int) -> int:
            store = self._fenced(fence)
            store.check_fence(fence)
            return numbers.reclaim(store, chain_nonce, nonces)

        return await self._step("reclaim", step, durable=True)

    async def book(self, lane: str) -> Book:
        return await self._step("book", lambda now: numbers.book(self._store(lane), now))

    async def checked(self, lane: str) -> None:
        def step(now: int) -> None:
            self._store(lane).checked = now

        await self._step("checked", step)

    # -- who asked for what

    async def note(self, entry: AuditEntry, keep: int = AUDIT_LIMIT) -> AuditEntry:
        return await self._step("note", lambda now: self.audits.note(entry, keep, now), durable=True)

    async def audit(self, tenant: str = ALL_TENANTS, count: int = 100) -> list[AuditEntry]:
        return await self._step("audit", lambda _: self.audits.read(tenant, count))

    # -- what one caller may use

    async def draw(self, name: str, per_second: float, burst: int, want: int) -> Drawn:
        return await self._step("draw", lambda now: self.buckets.draw(name, per_second, burst, want, now))

    async def room(self, owner: str, pools: Collection[str] | None = None) -> Room:
        def step(_: int) -> Room:
            stores = [s for s in self.stores.values() if pools is None or s.spec.pool in pools]
            used = [store.shares.used(owner) for store in stores]
            return Room(sum(room.count for room in used), sum(room.size for room in used))

        return await self._step("room", step)

    # -- who is logged in

    async def offer_code(self, issuer: str, code: str, lasts_ms: int = CODE_MS, keep: int = CODES_LIMIT) -> None:
        check_digests(issuer, code)
        await self._step("offer_code", lambda now: self.logins.offer(issuer, code, lasts_ms, keep, now))

    async def open_session(
        self,
        issuer: str,
        code: str,
        session: str,
        origin: str = "",
        lasts_ms: int = SESSION_MS,
        keep: int = SESSIONS_LIMIT,
    ) -> Session | None:
        check_digests(issuer, code, session)

        def step(now: int) -> Session | None:
            return self.logins.open(issuer, code, session, shown_origin(origin), lasts_ms, keep, now)

        return await self._step("open_session", step, durable=True)

    async def sessions(self, issuer: str) -> list[Session]:
        check_digests(issuer)
        return await self._step("sessions", lambda now: self.logins.list(issuer, now))

    async def session(self, issuer: str, id: str) -> Session | None:
        check_digests(issuer, id)
        found = await self._step("session", lambda now: self.logins.list(issuer, now))
        return next((session for session in found if session.id == id), None)

    async def end_session(self, issuer: str, id: str) -> bool:
        check_digests(issuer, id)
        return await self._step("end_session", lambda _: self.logins.end(issuer, id), durable=True)

    # -- what may be spent

    async def charge(self, charges: Sequence[Charge]) -> list[Charged]:
        check_charges(charges)
        return [await self._charge(charge) for charge in charges]

    async def _charge(self, charge: Charge) -> Charged:
        """Budget by budget, as in a cluster; what was charged is taken back when a later one refuses."""
        turns: dict[str, int] = {}
        for budget in charge.budgets:

            def step(now: int, budget: Budget = budget) -> Charged:
                return self.budgets.charge(charge, budget, self.history_id, self.vouches, now)

            answer = await self._step("charge", step, durable=True)
            turns |= answer.turns
            if answer.word != "charged":
                await self.uncharge(charge.life, Charged("charged", turns).fresh)
                return answer
        return Charged("charged", turns)

    async def uncharge(self, life: str, turns: Mapping[str, int]) -> int:
        def step(now: int) -> int:
            return sum(self.budgets.uncharge(name, life, turn, now) for name, turn in turns.items())

        return await self._step("uncharge", step) if turns else 0

    async def correct(self, corrections: Sequence[Correction]) -> int:
        def step(now: int) -> int:
            return sum(self.budgets.correct(one, now) for one in corrections)

        return await self._step("correct", step, durable=True) if corrections else 0

    async def usage(self, names: Sequence[str]) -> list[Usage]:
        def step(now: int) -> list[Usage]:
            return [self.budgets.usage(name, self.history_id, self.vouches, now) for name in names]

        return await self._step("usage", step)

    async def override(self, name: str, limit: int | None, expected: int | None) -> bool:
        return await self._step("override", lambda now: self.budgets.override(name, limit, expected, now), durable=True)

    async def due_charges(self, slot: int, count: int) -> list[OpenCharge]:
        return await self._step("due_charges", lambda now: self.budgets.due(slot, count, now))

    async def look_later(self, charge: OpenCharge, after_ms: int) -> None:
        await self._step("look_later", lambda now: self.budgets.look_later(charge, now + after_ms))

    async def rebuild(self) -> int:
        moved, found = self.budgets.moved_slots(self.history_id, self.vouches), self.history_id
        if not moved:
            return 0
        books = await restored(self._every_record(), moved, self._clock())

        def step(now: int) -> int:
            for name, book in books.items():
                self.budgets.restore(name, book, now)
            if self.history_id != found:
                return 0  # it changed again: these records are not the last word
            for slot in moved:
                self.budgets.rebuilt(slot, found)
            return len(moved)

        return await self._step("rebuild", step, durable=True)

    async def _every_record(self) -> AsyncIterator[Record]:
        """Lanes first: what is retired meanwhile is met again in its home, and so never missed."""
        lanes = await self._step("rebuild", lambda _: [r for s in self.stores.values() for r in s.records.values()])
        for record in lanes:
            yield record
        for record in await self._step("rebuild", self.homes.finals):
            yield record

    # -- final records

    async def unretired(self, lane: str, count: int) -> list[Record]:
        def step(now: int) -> list[Record]:
            return self.stores[lane].unretired(count, now) if lane in self.stores else []

        records = await self._step("unretired", step)
        return await self._step("unretired", step, durable=True) if _unsure(records) else records

    async def retire(self, records: Sequence[Record]) -> int:
        check_retirable(records)
        keep_ms = self._retention_ms
        await self._step("retire_home", lambda now: [self.homes.retire(r, keep_ms, now) for r in records], durable=True)
        await self.correct([one for record in records for one in corrections(record)])

        def bury(now: int) -> int:
            buried = sum(self.stores[r.lane].bury(r, now) for r in records if r.lane in self.stores)
            for lane in {r.lane for r in records} & self.stores.keys():
                self.stores[lane].forget_gone(now - keep_ms)
            return buried

        return await self._step("retire_lane", bury)

    async def archive(self, lane: str, max_lag: int | None) -> None:
        await self._step("archive", lambda _: self._store(lane).set_archive(max_lag), durable=True)

    async def unarchived(self, lane: str, count: int) -> list[Record]:
        def step(_: int) -> list[Record]:
            return self.stores[lane].unarchived(count) if lane in self.stores else []

        records = await self._step("unarchived", step)
        return await self._step("unarchived", step, durable=True) if _unsure(records) else records

    async def acknowledge(self, lane: str, records: Sequence[tuple[IntentId, str]]) -> int:
        def step(_: int) -> int:
            store = self.stores.get(lane)
            return sum(store.acknowledge(id, life) for id, life in records) if store else 0

        return await self._step("acknowledge", step)

    async def backlog(self, lane: str, count: int) -> Backlog:
        return await self._step(
            "backlog", lambda _: self.stores[lane].backlog(count) if lane in self.stores else Backlog()
        )

    async def shelve(self, record: IntentId, lane: str, error: str) -> None:
        def step(now: int) -> None:
            self._store(lane).shelf[record] = (now, error)

        await self._step("shelve", step)

    async def shelved(self, lane: str) -> dict[str, str]:
        return await self._step("shelved", lambda _: {str(id): e for id, (_, e) in self._store(lane).shelf.items()})

    async def sweep(self, home: int, older_than_ms: int = SWEEP_AFTER_MS) -> int:
        stale = await self._step("sweep", lambda now: self.homes.stale(home, now - older_than_ms, now))
        gone = 0
        for id, claim in stale:
            if claim.alias_of is not None:
                target = claim.alias_of
                if await self._step("sweep", lambda now, t=target: self.homes.get(t, now)) is not None:  # type: ignore[misc]
                    continue
            else:
                record = await self._read_lane("sweep", claim.lane, id)
                if record is not None and record.life == claim.life:
                    if record.status.final:
                        gone += await self.retire([record])
                    continue
            gone += await self._step(
                "sweep",
                lambda now, id=id, life=claim.life, born=claim.born: self.homes.forget(id, life, born, now),  # type: ignore[misc]
            )
        return gone

    # -- lanes and workers

    async def register(self, spec: LaneSpec) -> Lane:
        def step(now: int) -> Lane | None:
            store = self.stores.get(spec.id)
            if store is None:
                store = self.stores[spec.id] = LaneStore(spec, self.history_id)
            elif store.state is LaneState.CLOSED:
                return None
            check_sort(store.spec.keyless, spec)
            store.spec, store.used, store.parked = spec, now, False
            return store.view(now, self.history_id)

        view = await self._step("register", step, durable=True)
        if view is None:  # durably: whoever hears it gives the lane up
            raise LaneClosed(spec.id)
        return view

    async def schema(self) -> int:
        return SCHEMA

    async def check_upgrade(self) -> None:
        return None

    async def upgrade(self) -> list[str]:
        return []

    async def admit_lane(self, owner: str, lane: str, most: int) -> bool:
        def step(_: int) -> bool:
            made = {one for one in self._made.get(owner, set()) if one in self.stores}
            if lane in self.stores and self.stores[lane].parked:
                return True
            self._made[owner] = made if lane not in made and len(made) >= most else made | {lane}
            return lane in self._made[owner]

        return await self._step("admit_lane", step)

    async def forget_lane(self, lane: str) -> None:
        def step(now: int) -> None:
            store = self._store(lane)
            numbers.expire(store, now)
            check_forgettable(lane, store.spec.keyless, store.state, store.forget_obstacle())
            del self.stores[lane]

        await self._step("forget_lane", step, durable=True)

    async def set_lane(
        self,
        lane: str,
        state: LaneState,
        reason: str = "",
        evidence: Mapping[str, Json] | None = None,
        *,
        cause: StopCause | None = None,
        command: LaneCommand | None = None,
        fence: Fence | None = None,
        asks: int | None = None,
    ) -> Lane:
        words, cause, command = check_stop(state, reason, cause, command)

        def step(now: int) -> Lane:
            store = self._store(lane)
            store.set_state(state, words, evidence or {}, fence, cause, command, asks)
            self._wake(lane)
            return store.view(now, self.history_id)

        return await self._step("set_lane", step, durable=True)

    async def routes(self, *, fresh: bool = False) -> list[Route]:
        return await self._step("routes", lambda _: self._listed(parked=False))

    async def parked(self) -> list[Route]:
        return await self._step("parked", lambda _: self._listed(parked=True))

    def _listed(self, *, parked: bool) -> list[Route]:
        stores = (store for store in self.stores.values() if store.parked is parked)
        return [Route(s.spec.id, s.spec.pool, s.spec.weight, s.state) for s in stores]

    async def lanes(self, pool: str | None = None) -> list[Lane]:
        def step(now: int) -> list[Lane]:
            stores = (s for s in self.stores.values() if pool in (None, s.spec.pool) and not s.parked)
            return [s.view(now, self.history_id) for s in stores]

        return await self._step("lanes", step)

    async def lane(self, lane: str) -> Lane | None:
        def step(now: int) -> Lane | None:
            store = self.stores.get(lane)
            return store.view(now, self.history_id) if store else None

        return await self._step("lane", step)

    async def heartbeat(self, member: Member, ttl_ms: int) -> None:
        def step(now: int) -> None:
            self._members[member.name] = (member, now + ttl_ms)

        await self._step("heartbeat", step)

    async def leave(self, name: str) -> None:
        await self._step("leave", lambda _: self._members.pop(name, None))

    async def members(self) -> list[Member]:
        return await self._step(
            "members",
            lambda now: sorted((m for m, until in self._members.values() if until > now), key=lambda m: m.name),
        )

    async def events(self, lane: str, after: str = START, count: int = 100) -> list[Event]:
        def step(_: int) -> list[Event]:
            def order(event_id: str) -> tuple[int, ...]:
                return tuple(map(int, event_id.split("-")))

            events = self.stores[lane].events if lane in self.stores else []
            return [e for e in events if order(e.id) > order(after)][:count]

        return await self._step("events", step)

    # -- waiting

    async def wait_wake(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        wanted = set(lanes)
        if not (wanted & self._rung):
            bell = asyncio.Event()
            self._bells[bell] = wanted
            try:
                async with asyncio.timeout(timeout_s):
                    await bell.wait()
            except TimeoutError:
                pass
            finally:
                del self._bells[bell]
        rung = wanted & self._rung
        self._rung -= rung
        return rung

    def heard(self, lane: str) -> Taken | None:
        return self._carried.pop(lane, None)

    async def wait_news(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        return await self._told.news(lanes, timeout_s)

    async def wait_final(self, lane: str, id: IntentId, timeout_s: float) -> Record | None:
        record = self._lane_record(lane, id)
        if record is None or record.status.final:
            return None
        future: asyncio.Future[Record | None] = asyncio.get_running_loop().create_future()
        self._finals.setdefault(id, set()).add(future)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return None
        finally:
            self._finals.get(id, set()).discard(future)

    def _wake(
        self, lane: str, final: IntentId | None = None, told: Record | None = None, entry: Taken | None = None
    ) -> None:
        """`told` is the record of what became final, `entry` what was appended, where the hint carries it."""
        self._told.tell(lane)
        if final is None:
            if entry is not None and lane not in self._rung:
                self._carried[lane] = entry
            else:
                self._carried.pop(lane, None)
            self._rung.add(lane)
            for bell, wanted in self._bells.items():
                if lane in wanted:
                    bell.set()
        else:
            for future in self._finals.pop(final, set()):
                if not future.done():
                    future.set_result(told)

    async def now_ms(self) -> int:
        return await self._step("now", lambda now: now)

    async def close(self) -> None:
        """Nothing to close: the state ends with the process."""
