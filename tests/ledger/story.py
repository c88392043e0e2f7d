"""One life of a ledger that uses every operation once, as a list of steps: each can be lost, repeated or cancelled."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from txmanager.core.alerts import Alert
from txmanager.core.budgets import Budget, Charge, noted_charge
from txmanager.core.ledger import Claim, Claimed, Entry, Ledger, Member, Settlement, Taken, WriteAhead
from txmanager.core.models import Fence, Intent, LaneSpec, Outcome, Purpose, failure
from txmanager.core.states import LaneState, Status
from txmanager.testing.ledger.finals import SOON
from txmanager.testing.ledger.stage import BASE, LONG_MS, POOL, Stage
from txmanager.testing.ledger.watchers import noop

LANE, OTHER = "near:net:a:1", "near:net:b:2"
BUDGET = Budget("pool:pool/1d", 120, 24 * 3_600_000)


@dataclass
class Story:
    """What the teller remembers between steps; ledger and time apart, two tellings are equal."""

    stage: Stage
    intents: list[Intent] = field(default_factory=list)
    claims: list[Claimed] = field(default_factory=list)
    fence: Fence = field(default_factory=lambda: Fence(LANE, "w1", 1, "token"))
    taken: list[Taken] = field(default_factory=list)
    writes: list[WriteAhead] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.intents = [replace(self.stage.intent(f"k{n}"), limits=noted_charge(20, 1, [BUDGET])) for n in range(6)]

    @property
    def ledger(self) -> Ledger:
        return self.stage.ledger

    def steps(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        names = [name for name in vars(Story) if name.startswith("s") and name[1:3].isdigit()]
        return [(name[4:], getattr(self, name)) for name in names]

    async def s01_register(self) -> None:
        await self.ledger.register(LaneSpec(LANE, POOL))
        await self.ledger.register(LaneSpec(OTHER, POOL))

    async def s02_claim(self) -> None:
        self.claims = await self.ledger.claim(
            [Claim(i.id, i.fingerprint, LANE, f"life{n}") for n, i in enumerate(self.intents)]
        )

    async def s31_charge(self) -> None:
        claimed = zip(self.intents, self.claims, strict=True)
        charges = [Charge(i.id, c.life, c.born, 20, (BUDGET,)) for i, c in claimed]
        assert {answer.word for answer in await self.ledger.charge(charges)} == {"charged"}

    async def s32_override(self) -> None:
        assert await self.ledger.override(BUDGET.name, 200, None)

    async def s33_uncharge(self) -> None:
        """At most once: a reply that is lost after it was charged again leaves the charge to the sweeper."""
        [answer] = await self.ledger.charge([Charge(self.intents[0].id, "other", self.claims[0].born, 1, (BUDGET,))])
        await self.ledger.uncharge("other", answer.turns)

    async def s03_append(self) -> None:
        entries = [Entry(i, c.life, c.born) for i, c in zip(self.intents[:5], self.claims, strict=False)]
        await self.ledger.append(LANE, entries)

    async def s31_accept(self) -> None:
        """As a producer does: in one step, and the long way if the key is known by now."""
        if (born := self.ledger.born_now()) is None:  # a cluster
            return
        entry = Entry(self.stage.intent("at-once"), "one-step", born)
        [answer] = await self.ledger.accept(OTHER, [entry])
        if answer.word == "known":
            claims = [Claim(entry.intent.id, entry.intent.fingerprint, LANE, "other")]
            [claimed] = await self.ledger.claim(claims)
            assert (claimed.lane, claimed.life) == (OTHER, "one-step")
            [answer] = await self.ledger.append(OTHER, [Entry(entry.intent, claimed.life, claimed.born)])
        assert answer.word in ("appended", "exists")

    async def s04_lease(self) -> None:
        lease = await self.ledger.lease(LANE, "w1", "token", LONG_MS)
        assert lease.fence is not None
        self.fence = lease.fence

    async def s05_baseline(self) -> None:
        assert await self.ledger.baseline(self.fence, BASE) == BASE

    async def s06_renew(self) -> None:
        assert (await self.ledger.renew([self.fence], LONG_MS))[0].word == "renewed"

    async def s07_take(self) -> None:
        self.taken = await self.ledger.take(self.fence, 3)
        assert [t.intent.id.key for t in self.taken] == ["k0", "k1", "k2"]

    async def s08_record_attempts(self) -> None:
        self.writes = [
            self.stage.write(Entry(t.intent, t.life, 0), BASE + n, position=t.position)
            for n, t in enumerate(self.taken)
        ]
        assert await self.ledger.record_attempts(self.fence, BASE, self.writes) == BASE + 3

    async def s09_hold(self) -> None:
        assert await self.ledger.hold(self.fence, self.writes[1].id, self.writes[1].life, "why", {})

    async def s10_resolve(self) -> None:
        await self.ledger.resolve(self.writes[1].id, {"verb": "resign"})

    async def s11_resign(self) -> None:
        old = self.writes[1]
        again = self.stage.write(
            Entry(self.taken[1].intent, old.life, 0), BASE + 3, Purpose.RESIGN, deaths=[old.attempt.name], counted=True
        )
        assert await self.ledger.record_attempts(self.fence, BASE + 3, [again]) == BASE + 4

    async def s12_answer(self) -> None:
        assert await self.ledger.answer(self.fence, self.writes[1].id, self.writes[1].life)

    async def s13_cancel_inflight(self) -> None:
        assert (await self.ledger.cancel(self.writes[2].id)).cancel_requested

    async def s14_cancel_queued(self) -> None:
        assert (await self.ledger.cancel(self.intents[3].id)).status is Status.CANCELLED

    async def s15_settle(self) -> None:
        failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
        last = self.writes[2]
        batch = [
            self.stage.done(self.writes[0]),
            Settlement(last.id, last.life, last.position, failed, {last.attempt.name: {"cause": "expired"}}),
        ]
        assert {a.word for a in await self.ledger.settle(self.fence, batch, BASE)} <= {"settled", "already"}

    async def s16_retire(self) -> None:
        await self.ledger.retire(await self.ledger.unretired(LANE, 9))

    async def s17_move(self) -> None:
        last = self.claims[5]
        assert (await self.ledger.move(self.intents[5].id, last.life, LANE, OTHER)).lane == OTHER

    async def s18_alias(self) -> None:
        own = self.stage.intent("own")
        assert (await self.ledger.alias(own.id, own.fingerprint, self.intents[0].id)).word == "alias"

    async def s19_sweep(self) -> None:
        await self.ledger.sweep(self.intents[5].id.home, SOON)

    async def s20_set_lane(self) -> None:
        view = await self.ledger.set_lane(LANE, LaneState.PAUSED, "funds", {"balance": "0"}, fence=self.fence)
        assert view.state is LaneState.PAUSED

    async def s21_vouch(self) -> None:
        view = await self.ledger.lane(LANE)
        assert view is not None
        assert await self.ledger.vouch(self.fence, view.history_id, view.history_id)

    async def s29_fill(self) -> None:
        old, new = noop(BASE - 2), noop(BASE - 1)
        assert old.nonce in {a.nonce for a in await self.ledger.fill(self.fence, [old])}
        assert await self.ledger.fill(self.fence, [new], [old.name]) == [new]

    async def s30_check(self) -> None:
        assert await self.ledger.check(LANE, "monitor:1", [Alert.GAP])
        assert [r.id.key for r in await self.ledger.pending(LANE)] == ["k1"]

    async def s22_heartbeat(self) -> None:
        await self.ledger.heartbeat(Member("w1", frozenset({LANE})), LONG_MS)

    async def s23_members(self) -> None:
        assert [m.name for m in await self.ledger.members()] == ["w1"]

    async def s24_leave(self) -> None:
        await self.ledger.leave("w1")

    async def s25_unfinished(self) -> None:
        assert [r.id.key for r in await self.ledger.unfinished(self.fence)] == ["k1"]

    async def s26_read(self) -> None:
        record = await self.ledger.read(self.intents[0].id)
        assert record is not None
        assert record.status is Status.DONE

    async def s27_lanes(self) -> None:
        assert len(await self.ledger.lanes()) == 2
        assert len(await self.ledger.events(LANE)) == 13

    async def s34_end_at_once(self) -> None:
        """What owes no budget goes home in the step that ends it, where one store holds both."""
        record = await self.ledger.read(self.stage.intent("at-once").id)
        if record is None or record.status.final:  # a cluster, or this step is repeated
            return
        lease = await self.ledger.lease(OTHER, "w1", "another", LONG_MS)
        assert lease.fence is not None
        failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
        [answer] = await self.ledger.settle(lease.fence, [Settlement.of(record, failed, {})])
        assert answer.word in ("settled", "gone")

    async def s28_release(self) -> None:
        assert await self.ledger.release(self.fence)

    async def ends_well(self, ledger: Ledger) -> None:
        """The state that one execution of every step leaves, read through another client."""
        [budget] = await ledger.usage([BUDGET.name])
        # two are live and one never got its record; of the three that ended, two were signed at no known cost
        assert (budget.open, budget.costs(BUDGET), budget.override) == (60, 40, 200)
        views = {view.id: view for view in await ledger.lanes()}
        lane = views[LANE]
        assert (lane.cursor, lane.landed, lane.epoch, lane.owner) == (BASE + 4, BASE, 1, "")
        assert (lane.depth, lane.unfinished, lane.unretired, lane.asks) == (2, 1, 0, 4)
        assert (lane.state, lane.reason) == (LaneState.PAUSED, "funds")
        assert (views[OTHER].depth, views[OTHER].unretired) == (0, 0)
        at_once = await ledger.read(self.stage.intent("at-once").id)
        assert (at_once is not None and at_once.status is Status.FAILED) == (self.ledger.born_now() is not None)
        ends = [e.status for e in await ledger.events(OTHER)]
        assert ends == ([Status.QUEUED, Status.FAILED] if at_once else [])
        events = [(e.intent.key, e.status.value) for e in await ledger.events(LANE)]
        assert events == [
            *((f"k{n}", "queued") for n in range(5)),
            *((f"k{n}", "inflight") for n in range(3)),
            ("k1", "held"),
            ("k1", "inflight"),
            ("k3", "cancelled"),
            ("k0", "done"),
            ("k2", "failed"),
        ]
        records = [await ledger.read(intent.id) for intent in self.intents]
        assert [r.status.value if r else None for r in records] == [
            "done",
            "inflight",
            "failed",
            "cancelled",
            "queued",
            None,
        ]
        middle = records[1]
        assert middle is not None
        assert [(a.nonce, a.dead) for a in middle.attempts] == [(BASE + 1, True), (BASE + 3, False)]
        assert (middle.resigns, middle.directive, middle.hold) == (1, None, None)
        alias = await ledger.read(self.stage.intent("own").id)
        assert alias == records[0]
        assert await ledger.members() == []
