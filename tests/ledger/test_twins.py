"""A random walk over every operation, on memory and on another ledger at once: every answer is the same."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.ledger.twins import Side, Twins
from txmanager.core.alerts import Alert
from txmanager.core.ledger import APPEND_WITHIN_MS, Claim, Entry, Member, Settlement, Taken, WriteAhead
from txmanager.core.models import Attempt, Fence, Intent, LaneSpec, Outcome, Purpose, Record, failure, new_intent
from txmanager.core.reservations import Use
from txmanager.core.states import LaneState, Status
from txmanager.ledger.redis.scripts import build, script
from txmanager.testing.ledger.stage import BASE, POOL
from txmanager.testing.ledger.watchers import noop

LANES = ["near:net:a:1", "near:net:b:2"]
KEYLESS = "evm:1:0xaa"
KEYS = [f"key{n}" for n in range(5)]
TOKENS = ["t1", "t2", "t3"]
DAY_MS = 24 * 3600 * 1000
_numbers = itertools.count()
_server: list[str] = []

lanes = st.sampled_from(LANES)
keys = st.sampled_from(KEYS)
lives = st.sampled_from(["life1", "life2"])
variants = st.sampled_from([0, 0, 0, 1])
tokens = st.sampled_from(TOKENS)
states = st.sampled_from([LaneState.ACTIVE] * 4 + list(LaneState))
ages = st.sampled_from([0, 0, APPEND_WITHIN_MS * 2, -APPEND_WITHIN_MS * 2])
statuses = st.sampled_from([Status.DONE, Status.FAILED, Status.CANCELLED])
purposes = st.sampled_from(list(Purpose))
holders = st.sampled_from([f"holder{n}" for n in range(6)])
counts = st.sampled_from([None, 7, 7, 9, 11])
LATER = [Purpose.RESIGN, Purpose.RESIGN, Purpose.REPLACE, Purpose.NOOP]
MISTAKES = ["none", "none", "none", "record", "purpose", "nonce", "proof", "proof", "life", "cursor"]


def intent(key: str, variant: int = 0) -> Intent:
    return new_intent(key=key, pool=POOL, kind="near.transfer", payload={"to": "bob", "variant": variant})


class Walk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.twins = Twins(self.runner, _server[0], f"walk{next(_numbers)}-{id(self)}")
        self.fences: list[Fence] = [Fence(LANES[0], "nobody", 9, "t9")]
        for lane in LANES:
            self.register(lane)
            self.lease(lane, "t1")
        self.submit(KEYS[:3], LANES[0], "life1")
        self.keyless()

    def teardown(self) -> None:
        self.twins.close()
        self.runner.close()

    # -- what the walk knows, from the memory side

    def records(self, lane: str) -> list[Record]:
        store = self.twins.memory.stores.get(lane)
        return list(store.records.values()) if store else []

    def fence(self, data: st.DataObject) -> Fence:
        """The owner's own fence most of the time, else any that was ever given."""
        live = [Fence(s.spec.id, s.owner, s.epoch, s.token) for s in self.twins.memory.stores.values() if s.token]
        return data.draw(st.sampled_from([*live * 4, *self.fences[-4:]]))

    def entry(self, side: Side, record: Record) -> str:
        return side.actual(self.twins.sides[0].symbol(f"entry {record.lane}", record.position))

    # -- producers

    def register(self, lane: str) -> None:
        self.twins.ask("register", lambda s: s.ledger.register(LaneSpec(lane, POOL, queue_limit=4)))

    def claim(self, key: str, variant: int, lane: str, life: str) -> None:
        i = intent(key, variant)
        self.twins.ask("claim", lambda s: s.ledger.claim([Claim(i.id, i.fingerprint, lane, life)]))

    @rule(batch=st.lists(keys, min_size=1, max_size=3), lane=lanes, life=lives)
    def submit(self, batch: list[str], lane: str, life: str) -> None:
        """Claim, then append where the claim says, as a producer does."""
        for key in batch:
            i = intent(key)

            async def both(s: Side, i: Intent = i) -> object:
                [c] = await s.ledger.claim([Claim(i.id, i.fingerprint, lane, life)])
                if c.word not in ("claimed", "renewed"):
                    return c
                return await s.ledger.append(c.lane, [Entry(i, c.life, c.born)]), c.word, c.lane

            self.twins.ask("submit", both)

    @rule(batch=st.lists(keys, min_size=1, max_size=3), lane=lanes, life=lives, age=ages)
    def accept(self, batch: list[str], lane: str, life: str, age: int) -> None:
        async def question(s: Side) -> object:
            born = await s.ledger.now_ms() - age
            return await s.ledger.accept(lane, [Entry(intent(key), life, born) for key in batch])

        self.twins.ask("accept", question)

    def append(self, key: str, lane: str, life: str, age: int) -> None:
        async def question(s: Side) -> object:
            return await s.ledger.append(lane, [Entry(intent(key), life, await s.ledger.now_ms() - age)])

        self.twins.ask("append", question)

    def move(self, key: str, life: str, old: str, new: str) -> None:
        self.twins.ask("move", lambda s: s.ledger.move(intent(key).id, life, old, new))

    def alias(self, key: str, other: str, variant: int) -> None:
        i = intent(key, variant)
        self.twins.ask("alias", lambda s: s.ledger.alias(i.id, i.fingerprint, intent(other).id))

    @rule(key=keys)
    def cancel(self, key: str) -> None:
        self.twins.ask("cancel", lambda s: s.ledger.cancel(intent(key).id))

    @rule(key=keys, verb=st.sampled_from(["track", "kill"]))
    def resolve(self, key: str, verb: str) -> None:
        self.twins.ask("resolve", lambda s: s.ledger.resolve(intent(key).id, {"verb": verb}))

    # -- owners

    @rule(lane=lanes, token=tokens)
    def lease(self, lane: str, token: str) -> None:
        answer = self.twins.ask("lease", lambda s: s.ledger.lease(lane, f"w-{token}", token, DAY_MS))
        if answer.fence is not None:
            fence = answer.fence
            self.fences.append(fence)
            self.twins.ask("baseline", lambda s: s.ledger.baseline(fence, BASE))

    def lease_runs_out(self, lane: str) -> None:
        self.twins.ask("poke", lambda s: s.poke("lease", lane))

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        fence = self.fence(data)
        self.twins.ask("renew", lambda s: s.ledger.renew([fence], DAY_MS))

    def release(self, data: st.DataObject) -> None:
        fence = self.fence(data)
        self.twins.ask("release", lambda s: s.ledger.release(fence))

    def baseline(self, data: st.DataObject, offset: int, operator: bool) -> None:
        fence = self.fence(data)
        self.twins.ask("baseline", lambda s: s.ledger.baseline(fence, BASE + offset, operator=operator))

    def vouch(self, data: st.DataObject, away: bool) -> None:
        fence = self.fence(data)

        async def question(s: Side) -> object:
            view = await s.ledger.lane(fence.lane)
            if view is None:
                return None
            found = "elsewhere" if away else view.found_history_id
            return await s.ledger.vouch(fence, view.history_id, found)

        self.twins.ask("vouch", question)

    @rule(data=st.data(), count=st.integers(0, 4))
    def take(self, data: st.DataObject, count: int) -> None:
        fence = self.fence(data)
        self.twins.ask("take", lambda s: s.ledger.take(fence, count))

    def unfinished(self, data: st.DataObject) -> None:
        fence = self.fence(data)
        self.twins.ask("unfinished", lambda s: s.ledger.unfinished(fence))

    @rule(data=st.data(), count=st.integers(1, 3))
    def sign_next(self, data: st.DataObject, count: int) -> None:
        """As a worker does: take, sign with the next nonces, write ahead; and once more after a lost reply."""
        fence = self.fence(data)

        async def question(s: Side) -> object:
            taken = await s.ledger.take(fence, count)
            view = await s.ledger.lane(fence.lane)
            if not taken or view is None or view.cursor is None:
                return taken
            start = view.cursor
            batch = [
                WriteAhead(t.intent.id, t.life, t.position, self.attempt(start + n, f"h{start + n}", Purpose.FIRST))
                for n, t in enumerate(taken)
            ]
            return [await s.ledger.record_attempts(fence, start, batch) for _ in range(2)]

        self.twins.ask("sign_next", question)

    @staticmethod
    def attempt(nonce: int, hash: str, purpose: Purpose) -> Attempt:
        return Attempt(nonce, hash, b"raw\x00", purpose, 1_700_000_000_000 + nonce % 7)

    @rule(data=st.data(), size=st.sampled_from([1, 1, 2]), mistake=st.sampled_from(MISTAKES))
    def write_ahead(self, data: st.DataObject, size: int, mistake: str) -> None:
        """Another attempt for what has some, right but for the one mistake."""
        fence = self.fence(data)
        store = self.twins.memory.stores.get(fence.lane)
        known = self.records(fence.lane)
        begun = [r for r in known if r.attempts and not r.status.final]
        if store is None or store.cursor is None or not known:
            return
        start, plan = store.cursor, []
        for n in range(size):
            record = data.draw(st.sampled_from(known if mistake == "record" or not begun else begun))
            purpose = data.draw(purposes if mistake == "purpose" else st.sampled_from(LATER))
            used = [a.nonce for a in record.attempts] or [start]
            nonce = used[-1] if purpose is Purpose.REPLACE else start + n
            if purpose is Purpose.NOOP:
                nonce = data.draw(st.sampled_from([nonce, used[0]]))
            if mistake == "nonce":
                nonce = data.draw(st.sampled_from([start, *used, BASE - 1, 7]))
            dead = [a.name for a in record.attempts] if purpose is Purpose.RESIGN else []
            if mistake == "proof":
                dead = data.draw(st.sampled_from([dead[:1], dead[1:], [f"{nonce}:{purpose}{nonce}"]]))
            plan.append((record, "nobody" if mistake == "life" else record.life, purpose, nonce, dead))
        cursor = start + (mistake == "cursor")
        counted = data.draw(st.booleans())

        async def question(s: Side) -> object:
            batch = [
                WriteAhead(
                    record.id,
                    life,
                    self.entry(s, record),
                    self.attempt(nonce, f"{purpose}{nonce}", purpose),
                    {name: {"cause": "expired"} for name in dead},
                    counted,
                )
                for record, life, purpose, nonce, dead in plan
            ]
            return await s.ledger.record_attempts(fence, cursor, batch)

        self.twins.ask("write_ahead", question)

    @rule(data=st.data(), status=statuses, landed=st.sampled_from([None, 7, BASE, BASE + 2]))
    def settle(self, data: st.DataObject, status: Status, landed: int | None) -> None:
        fence = self.fence(data)
        known = self.records(fence.lane)
        if not known:
            return
        record = data.draw(st.sampled_from(known))
        names = [a.name for a in record.attempts]
        landing = data.draw(st.sampled_from([*names * 3, None, f"{BASE}:stranger"]))
        dead = data.draw(st.sampled_from([names, names[:1], [], ["1:ghost"]]))
        life = data.draw(st.sampled_from([record.life] * 4 + ["nobody"]))
        nonce, _, hash = (landing or "").partition(":")
        error = failure("x", "y", new_key_helps=True) if status is Status.FAILED else None
        outcome = Outcome(status, hash or None, int(nonce) if nonce else None, {"n": "1"}, error)

        at_once = data.draw(st.booleans())

        async def question(s: Side) -> object:
            proofs = {name: {"cause": "expired"} for name in dead}
            known = replace(record, life=life, position=self.entry(s, record))
            item = Settlement.of(known, outcome, proofs)
            return await s.ledger.settle(fence, [item if at_once else replace(item, final=None)] * 2, landed)

        self.twins.ask("settle", question)

    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        fence = self.fence(data)
        if known := self.records(fence.lane):
            record = data.draw(st.sampled_from(known))
            self.twins.ask("hold", lambda s: s.ledger.hold(fence, record.id, record.life, "why", {"a": 1}))

    @rule(data=st.data())
    def set_aside(self, data: st.DataObject) -> None:
        fence = self.fence(data)
        if known := self.records(fence.lane):
            record = data.draw(st.sampled_from(known))
            life = data.draw(st.sampled_from([record.life] * 4 + ["nobody"]))

            async def question(s: Side) -> object:
                entry = Taken(record.intent, life, self.entry(s, record), 0, record.seal)
                return await s.ledger.set_aside(fence, entry, "bad_seal", {"a": 1})

            self.twins.ask("set_aside", question)

    @rule(data=st.data(), lane=lanes)
    def reseal(self, data: st.DataObject, lane: str) -> None:
        if known := self.records(lane):
            record = data.draw(st.sampled_from(known))
            self.twins.ask("reseal", lambda s: s.ledger.reseal(record, "1.name.new"))

    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        fence = self.fence(data)
        if known := self.records(fence.lane):
            record = data.draw(st.sampled_from(known))
            self.twins.ask("answer", lambda s: s.ledger.answer(fence, record.id, record.life))

    # -- keyless lanes

    def keyless(self) -> None:
        self.twins.ask("register", lambda s: s.ledger.register(LaneSpec(KEYLESS, POOL, 0, 40, keyless=True)))

    @rule(token=holders, chain=counts, seed=counts, line=st.booleans())
    def hand_out(self, token: str, chain: int | None, seed: int | None, line: bool) -> None:
        def question(s: Side) -> Awaitable[object]:
            return (s.ledger.turn if line else s.ledger.reserve)(KEYLESS, token, DAY_MS, chain, seed)

        self.twins.ask("hand_out", question)

    @rule(token=holders, unlock=st.booleans())
    def give_back(self, token: str, unlock: bool) -> None:
        self.twins.ask("give_back", lambda s: (s.ledger.unlock if unlock else s.ledger.recycle)(KEYLESS, token))

    @rule(token=holders, off=st.sampled_from([0, 0, 0, 1]), hash=st.sampled_from(["0xa", "0xb", "0xc", "0xd"]))
    def send_raw(self, token: str, off: int, hash: str) -> None:
        """Bytes at the number that the token holds, or beside it; write them ahead, as a worker does."""
        store = self.twins.memory.stores[KEYLESS]
        held = store.held.get(token)
        use = Use(token, (held.nonce if held else 7) + off, hash)

        async def question(s: Side) -> object:
            i = intent(f"raw:{hash}")
            [c] = await s.ledger.claim([Claim(i.id, i.fingerprint, KEYLESS, "life")])
            if c.word not in ("claimed", "renewed"):
                return c.word
            [answer] = await s.ledger.append(KEYLESS, [Entry(i, c.life, c.born, use)])
            lease = await s.ledger.lease(KEYLESS, "w", "t", DAY_MS)
            if lease.fence is None:
                return answer, lease.word
            taken = await s.ledger.take(lease.fence, 9)
            batch = [
                WriteAhead(t.intent.id, t.life, t.position, self.attempt(use.nonce, t.intent.id.key, Purpose.KEYLESS))
                for t in taken
            ]
            if batch:
                return answer, await s.ledger.record_attempts(lease.fence, 0, batch)
            return answer

        self.twins.ask("send_raw", question)

    def lands(self, landed: int) -> None:
        async def question(s: Side) -> object:
            lease = await s.ledger.lease(KEYLESS, "w", "t", DAY_MS)
            return lease.word if lease.fence is None else await s.ledger.settle(lease.fence, [], landed)

        self.twins.ask("lands", question)

    def reclaims(self, chain: int) -> None:
        async def question(s: Side) -> object:
            lease = await s.ledger.lease(KEYLESS, "w", "t", DAY_MS)
            return lease.word if lease.fence is None else await s.ledger.reclaim(lease.fence, chain, range(6, 14))

        self.twins.ask("reclaims", question)

    def times_are_over(self) -> None:
        async def question(s: Side) -> object:
            await s.poke("deadlines", KEYLESS)
            return await s.ledger.expire(KEYLESS)

        self.twins.ask("expire", question)

    def parks(self, forgotten: int) -> None:
        """After all that the lane remembered is forgotten, or in the middle of it."""

        async def question(s: Side) -> object:
            lease = await s.ledger.lease(KEYLESS, "w", "t", DAY_MS)
            if lease.fence is None:
                return lease.word
            for _ in range(forgotten):
                await s.poke("deadlines", KEYLESS)
                await s.ledger.expire(KEYLESS)
            return [bool(await s.ledger.park(lease.fence, 0)) for _ in range(2)], await s.ledger.parked()

        self.twins.ask("parks", question)

    # -- monitors and gaps

    def fill(self, data: st.DataObject, nonces: list[int], forget: list[int]) -> None:
        fence = self.fence(data)
        attempts, done = [noop(n) for n in nonces], [noop(n).name for n in forget]
        self.twins.ask("fill", lambda s: s.ledger.fill(fence, attempts, done))

    def watch(self, lane: str, name: str) -> None:
        async def question(s: Side) -> object:
            return await s.ledger.check(lane, name, [Alert.STUCK]), await s.ledger.pending(lane)

        self.twins.ask("watch", question)

    # -- ends

    @rule(lane=lanes, twice=st.booleans())
    def retire(self, lane: str, twice: bool) -> None:
        async def question(s: Side) -> object:
            # in one order: where an archive lags behind, the first ones go without it
            records = sorted(await s.ledger.unretired(lane, 99), key=lambda r: r.id)
            return [await s.ledger.retire(records) for _ in range(1 + twice)]

        self.twins.ask("retire", question)

    @rule(key=keys)
    def sweep(self, key: str) -> None:
        self.twins.ask("sweep", lambda s: s.ledger.sweep(intent(key).id.home, -DAY_MS))

    def home_expires(self, key: str) -> None:
        """Only an answer that was kept long enough ever expires: after the tombstones, where there are any."""
        home = self.twins.memory.homes._homes.get(intent(key).id)
        if home is not None and home.record is not None:
            for lane in LANES:
                self.tombstone_expires(key, lane)
            self.twins.ask("poke", lambda s: s.poke("home", id=intent(key).id))

    def tombstone_expires(self, key: str, lane: str) -> None:
        self.twins.ask("poke", lambda s: s.poke("tombstone", lane, intent(key).id))

    # -- lanes

    def set_lane(self, lane: str, state: LaneState, reason: str) -> None:
        if state is LaneState.CLOSED and lane == LANES[0]:
            return  # one lane stays, or long walks have nowhere to go
        self.twins.ask("set_lane", lambda s: s.ledger.set_lane(lane, state, reason))

    def set_keyless(self, state: LaneState) -> None:
        self.twins.ask("set_lane", lambda s: s.ledger.set_lane(KEYLESS, state))

    def owner_sets_lane(self, data: st.DataObject, state: LaneState) -> None:
        fence = self.fence(data)
        self.twins.ask("set_lane", lambda s: s.ledger.set_lane(fence.lane, state, fence=fence))

    def members(self, name: str, stays: bool) -> None:
        async def question(s: Side) -> object:
            await (s.ledger.heartbeat(Member(name, frozenset(LANES)), DAY_MS) if stays else s.ledger.leave(name))
            return [m.name for m in await s.ledger.members()]

        self.twins.ask("members", question)

    @rule(data=st.data())
    def rarely(self, data: st.DataObject) -> None:
        """Everything that happens less often than work is done."""
        step = data.draw(st.sampled_from(list(RARELY)))
        step(self, *(data if strategy is None else data.draw(strategy) for strategy in RARELY[step]))

    @invariant()
    def every_view_is_the_same(self) -> None:
        async def question(s: Side) -> object:
            async def finals(lane: str) -> list[Record]:
                return sorted(await s.ledger.unretired(lane, 99), key=lambda r: r.id)

            async def listed(lane: str) -> list[Record]:
                """In the order of ids: two clocks make two orders."""
                return sorted((await s.ledger.browse(lane, None, 99)).records, key=lambda r: r.id)

            per_lane = [
                (s.ledger.lane(lane), s.ledger.events(lane, count=1000), finals(lane), listed(lane))
                for lane in (*LANES, KEYLESS)
            ]
            reads = [s.ledger.read(intent(key).id) for key in KEYS]
            routes = sorted(await s.ledger.routes(), key=lambda route: route.lane)
            book = await s.ledger.book(KEYLESS)
            parked = sorted(await s.ledger.parked(), key=lambda route: route.lane)
            return book, routes, parked, await asyncio.gather(*itertools.chain(*per_lane), *reads)

        self.twins.ask("views", question)

    # -- an archive

    def archive(self, lane: str, max_lag: int | None) -> None:
        self.twins.ask("archive", lambda s: s.ledger.archive(lane, max_lag))

    def archives(self, lane: str, key: str, life: str) -> None:
        async def question(s: Side) -> object:
            waiting = sorted(await s.ledger.unarchived(lane, 99), key=lambda r: r.id)
            return waiting, await s.ledger.acknowledge(lane, [(intent(key).id, life)])

        self.twins.ask("archives", question)

    def catches_up(self, lane: str) -> None:
        async def question(s: Side) -> object:
            backlog = await s.ledger.backlog(lane, 99)
            gone = sorted(backlog.gone, key=lambda one: one.life)
            return gone, backlog.lost, await s.ledger.acknowledge(lane, [(one.id, one.life) for one in gone])

        self.twins.ask("catches up", question)


fillable = st.lists(st.sampled_from([9, BASE - 1, BASE, BASE + 1]), max_size=2, unique=True)
RARELY: dict[Callable[..., None], list[st.SearchStrategy[Any] | None]] = {
    Walk.move: [keys, lives, lanes, lanes],
    Walk.alias: [keys, keys, variants],
    Walk.release: [None],
    Walk.baseline: [None, st.sampled_from([-1, 0, 3]), st.booleans()],
    Walk.vouch: [None, st.sampled_from([False, False, True])],
    Walk.lease_runs_out: [lanes],
    Walk.home_expires: [keys],
    Walk.tombstone_expires: [keys, lanes],
    Walk.set_lane: [lanes, states, st.sampled_from(["", "x"])],
    Walk.owner_sets_lane: [None, st.sampled_from([LaneState.ACTIVE, LaneState.PAUSED])],
    Walk.members: [st.sampled_from(["w1", "w2"]), st.booleans()],
    Walk.register: [lanes],
    Walk.unfinished: [None],
    Walk.append: [keys, lanes, lives, ages],
    Walk.claim: [keys, variants, lanes, lives],
    Walk.fill: [None, fillable, fillable],
    Walk.watch: [st.sampled_from([*LANES, KEYLESS, "near:net:never:1"]), st.sampled_from(["m:1", "m:2"])],
    Walk.archive: [lanes, st.sampled_from([0, 1, 3, 3, None])],
    Walk.archives: [lanes, keys, lives],
    Walk.catches_up: [lanes],
    Walk.keyless: [],
    Walk.times_are_over: [],
    Walk.parks: [st.sampled_from([0, 2, 2, 2])],
    Walk.reclaims: [st.sampled_from([7, 8, 10])],
    Walk.lands: [st.sampled_from([7, 9, 10, 12])],
    Walk.set_keyless: [st.sampled_from([LaneState.ACTIVE] * 3 + [LaneState.PAUSED, LaneState.QUARANTINED])],
}
"""None stands for the source of further choices."""


@pytest.fixture
def on_a_fast_server(make_server) -> Iterator[None]:
    """Without a file to sync: thousands of small steps."""
    _server[:] = [make_server().url]
    yield
    _server.clear()


WALKS = int(os.environ.get("TXMANAGER_WALKS", "50"))
"""More of them find rarer things: try a thousand after a change of a script."""

PHASES = [Phase.reuse, Phase.generate] + ([Phase.shrink] if "TXMANAGER_WALKS" in os.environ else [])
"""A failing walk is made short only when somebody asked for many: it can take minutes."""

long_walks = settings(
    phases=PHASES, max_examples=WALKS, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_memory_and_redis_answer_every_random_walk_alike(on_a_fast_server):
    run_state_machine_as_test(Walk, settings=long_walks)


def test_memory_and_durable_objects_answer_every_random_walk_alike(durable):
    _server[:] = [durable.url]
    try:
        run_state_machine_as_test(Walk, settings=settings(long_walks, max_examples=max(5, WALKS // 5)))
    finally:
        _server.clear()


@pytest.mark.parametrize(
    ("name", "guard", "without"),
    [
        ("settle", "before == status and 'already'", "'already'"),
        ("record_attempts", "(lane[8] or 0) + #opened", "0"),
    ],
)
def test_walk_notices_a_missing_guard(name: str, guard: str, without: str, on_a_fast_server):
    assert guard in script(name).text
    broken = build(name, script(name).text.replace(guard, without))

    class Broken(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.twins.other.runner.scripts[name] = broken

    with pytest.raises(AssertionError, match="memory"):
        run_state_machine_as_test(
            Broken, settings=settings(long_walks, max_examples=400, phases=[Phase.generate], database=None)
        )
