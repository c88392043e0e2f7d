"""Accepts intents: route, then claim and append, in one step where the ledger can and the key is new. Whatever dies
between two steps, the next call with the same key goes on.

A returned `Submitted` means durable. An exception means that nothing was accepted, except `Unavailable`, which means
"unknown": the same key again finds out and never starts a second life.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from txmanager.core.budgets import Bill, refusal
from txmanager.core.errors import (
    KeyReused,
    NoLane,
    NonceConflict,
    NoRoom,
    NotAllowed,
    QueueFull,
    StaleClaim,
    TxManagerError,
)
from txmanager.core.ledger import Appended, Claim, Claimed, Entry, Ledger, Route
from txmanager.core.models import Intent, IntentId, Record
from txmanager.core.quotas import Share
from txmanager.core.reservations import Use
from txmanager.core.router import Router
from txmanager.core.seal import Seals
from txmanager.core.states import LaneState, Status
from txmanager.core.values import value

_TRIES = 6
"""Claim, append and move can each be overtaken by others a few times; for ever means that something is wrong."""


@value(frozen=True, slots=True)
class Submitted:
    record: Record
    replayed: bool
    """Whether the key was known before: the record is then the stored one, whatever its state."""


@dataclass(slots=True)
class _Progress:
    """One intent on its way in."""

    intent: Intent
    lane: str = ""
    life: str = ""
    born: int = 0
    seal: str = ""
    result: Submitted | TxManagerError | None = None
    pinned: str = ""
    """The only lane that will do."""
    use: Use | None = None
    share: Share | None = None
    two_steps: bool = False
    """Whether it is claimed first and appended then: its key may be known, a budget pays for it, or the ledger cannot
    do both at once."""
    bill: Bill | None = None
    fresh: bool = False
    """Whether this call was the first to claim its key."""
    late: bool = False
    """Whether its claim was too old to be charged: claim again."""
    turns: Mapping[str, int] = field(default_factory=dict)
    """What this call charged, and takes back if the intent is not accepted."""
    avoid: set[str] = field(default_factory=set)

    @property
    def entry(self) -> Entry:
        return Entry(self.intent, self.life, self.born, self.use, self.seal, self.share)


class Producer:
    def __init__(
        self,
        ledger: Ledger,
        *,
        routes_for_s: float = 1.0,
        new_life: Callable[[], str] = lambda: os.urandom(8).hex(),
        seals: Seals | None = None,
    ) -> None:
        """With `seals`, workers can tell what was accepted here from what somebody wrote into the ledger."""
        self._ledger = ledger
        self._routes_for_s = routes_for_s
        self._new_life = new_life
        self._seals = seals
        self._routers: dict[str, Router] = {}
        self._active: dict[str, dict[str, int]] = {}
        """The weight of each active lane, by pool."""
        self._routes: Sequence[Route] = ()
        self._read_at = float("-inf")

    async def submit(self, intent: Intent) -> Submitted:
        [result] = await self.submit_many([intent])
        if isinstance(result, TxManagerError):
            raise result
        return result

    async def submit_many(
        self,
        intents: Sequence[Intent],
        *,
        lane: str = "",
        use: Use | None = None,
        shares: Sequence[Share | None] = (),
        bills: Sequence[Bill | None] = (),
        one_caller: bool = False,
    ) -> list[Submitted | TxManagerError]:
        """Accept a batch; each intent has its own result. Intents of one lane keep their order; where budgets pay for
        some of them, only if all are of `one_caller`. With `lane`, new ones go to that lane of their pool and to no
        other; with `use` they use up a number that was reserved there. `shares` says, one by one, whose room in the
        queue they take; `bills`, which budgets pay for them."""
        await self._refresh_routes()
        nobody = [None] * len(intents)
        some_pay = one_caller and any(bill is not None for bill in bills)
        progress = [
            _Progress(intent, pinned=lane, use=use, share=share, bill=bill, two_steps=some_pay or bill is not None)
            for intent, share, bill in zip(intents, shares or nobody, bills or nobody, strict=True)
        ]
        waiting = progress
        for _ in range(_TRIES):
            waiting = [p for p in waiting if p.result is None]
            if not waiting:
                break
            await self._accept([p for p in waiting if not p.two_steps])
            known = [p for p in waiting if p.result is None and p.two_steps]
            if not known:
                continue
            await self._claim(known)
            await self._charge([p for p in known if p.result is None and p.bill is not None])
            await self._append([p for p in known if p.result is None and not p.late])
            await self._uncharge([p for p in known if p.turns and not isinstance(p.result, Submitted)])
        return [p.result if p.result is not None else _late(p) for p in progress]

    async def replay(self, intent: Intent) -> Submitted | None:
        """The record of a key that was accepted with this same fingerprint; None for every other key."""
        p = _Progress(intent)
        await self._replay(p)
        return p.result if isinstance(p.result, Submitted) else None

    async def knows(self, pool: str, lane: str) -> bool:
        """Whether the registry lists a lane of the pool that takes intents; asked again before the answer is no."""
        if lane not in self._active.get(pool, {}):
            self._read_at = float("-inf")
        await self._refresh_routes()
        return lane in self._active.get(pool, {})

    async def lane_for(self, intent: Intent, lane: str = "") -> str | None:
        """Where a new intent would go now; nothing is written."""
        await self._refresh_routes()
        return self._route(_Progress(intent, pinned=lane))

    async def alias(self, id: IntentId, fingerprint: str, target: IntentId) -> None:
        """Bind a caller's own key to the key its payload implies, before that one is claimed."""
        answer = await self._ledger.alias(id, fingerprint, target)
        if answer.word != "alias" or answer.alias_of != target:
            raise KeyReused(id.key)

    # -- routing

    async def _refresh_routes(self, *, force: bool = False) -> None:
        now = asyncio.get_running_loop().time()
        if not force and now - self._read_at < self._routes_for_s:
            return
        routes = await self._ledger.routes(fresh=force)
        self._read_at = now
        if routes is self._routes:
            return
        self._routes = routes
        active: dict[str, dict[str, int]] = {}
        for route in routes:
            if route.state is LaneState.ACTIVE:
                active.setdefault(route.pool, {})[route.lane] = route.weight
        same = {pool for pool, lanes in active.items() if self._active.get(pool) == lanes}
        self._routers = {p: self._routers[p] if p in same else Router(lanes.items()) for p, lanes in active.items()}
        self._active = active

    def _route(self, p: _Progress) -> str | None:
        pool = p.intent.id.pool
        if p.use is not None:
            # A number is of one lane, whatever became of it since: the append itself says whether it still takes bytes.
            return p.pinned if p.pinned not in p.avoid else None
        if p.pinned:
            routable = p.pinned in self._active.get(pool, {})
            return p.pinned if routable and p.pinned not in p.avoid else None
        if p.avoid:
            lanes = ((lane, weight) for lane, weight in self._active.get(pool, {}).items() if lane not in p.avoid)
            return Router(lanes).choose(p.intent.partition_key)
        router = self._routers.get(pool)
        return router.choose(p.intent.partition_key) if router else None

    # -- home and lane at once

    async def _accept(self, batch: Sequence[_Progress]) -> None:
        born = self._ledger.born_now()
        for p in batch:
            lane = self._route(p)
            p.two_steps = born is None or lane is None
            if born is not None and lane is not None:
                p.lane, p.life, p.born = lane, self._new_life(), born
        closed = False
        for p, reply in await self._at_lanes(self._ledger.accept, [p for p in batch if not p.two_steps]):
            match reply.word:
                case "closed":  # and nothing was claimed: another lane will do
                    p.avoid.add(p.lane)
                    closed = True
                case "known" | "exists" | "retired" | "stale" | "ahead" | "other_life":
                    p.two_steps = True
                case _:
                    await self._appended(p, reply)
        if closed:
            await self._refresh_routes(force=True)

    async def _at_lanes(
        self, step: Callable[[str, Sequence[Entry]], Awaitable[list[Appended]]], batch: Sequence[_Progress]
    ) -> list[tuple[_Progress, Appended]]:
        """Carry a step out for each lane's intents, in their order."""
        by_lane: dict[str, list[_Progress]] = {}
        for p in batch:
            # for the lane and the life that it has now: a claim that moved is sealed again
            p.seal = self._seals.seal(p.intent, p.life, p.lane) if self._seals is not None else ""
            by_lane.setdefault(p.lane, []).append(p)
        if len(by_lane) == 1:
            [(lane, group)] = by_lane.items()
            return list(zip(group, await step(lane, [p.entry for p in group]), strict=True))
        answers = await asyncio.gather(*(step(lane, [p.entry for p in group]) for lane, group in by_lane.items()))
        return [
            pair
            for group, replies in zip(by_lane.values(), answers, strict=True)
            for pair in zip(group, replies, strict=True)
        ]

    # -- home, then lane

    async def _claim(self, batch: Sequence[_Progress]) -> None:
        claims = []
        for p in batch:
            lane = self._route(p)
            if lane is None:
                await self._answer_without_lane(p)
            else:
                claims.append((p, Claim(p.intent.id, p.intent.fingerprint, lane, self._new_life())))
        if not claims:
            return
        for (p, _), answer in zip(claims, await self._ledger.claim([c for _, c in claims]), strict=True):
            await self._claimed(p, answer)

    async def _claimed(self, p: _Progress, answer: Claimed) -> None:
        match answer.word:
            case "claimed" | "renewed":
                p.lane, p.life, p.born = answer.lane, answer.life, answer.born
                p.fresh = p.fresh or answer.word == "claimed"
            case "final":
                assert answer.record is not None
                p.result = Submitted(answer.record, True)
            case "alias":
                await self._replay(p)
            case "conflict":
                p.result = KeyReused(p.intent.id.key)

    async def _answer_without_lane(self, p: _Progress) -> None:
        """No lane takes new intents, yet a known key must still get its answer."""
        await self._replay(p)
        if p.result is None:
            p.result = NoLane(p.intent.id.pool)

    async def _replay(self, p: _Progress, *, confirmed: bool = False) -> None:
        record = await self._ledger.read(p.intent.id)
        if record is None:
            return
        if record.intent.fingerprint != p.intent.fingerprint:
            p.result = KeyReused(p.intent.id.key)
        elif confirmed or record.status.final or await self._confirm(record):
            p.result = Submitted(record, True)

    async def _confirm(self, record: Record) -> bool:
        """What was only read may be a write that no replica has: the same append again is answered durably. Born at
        zero, it is too old to bring back what is gone."""
        [answer] = await self._ledger.append(record.lane, [Entry(record.intent, record.life, 0)])
        return answer.word in ("exists", "retired")

    # -- budgets

    async def _charge(self, batch: Sequence[_Progress]) -> None:
        """A key that was accepted before is neither checked nor charged: it is answered from its record."""
        for p in batch:
            if not p.fresh:
                await self._replay(p)
        billed = [(p, p.bill) for p in batch if p.result is None and p.bill is not None]
        if not billed:
            return
        answers = await self._ledger.charge([bill.charge(p.intent.id, p.life, p.born) for p, bill in billed])
        for (p, bill), answer in zip(billed, answers, strict=True):
            p.late, p.turns = answer.word in ("stale", "ahead"), answer.fresh
            if answer.word in ("exhausted", "moved"):
                p.result = refusal(answer, bill.units)

    async def _uncharge(self, batch: Sequence[_Progress]) -> None:
        """What was not accepted gives its charge back at once; a crash before that leaves it to the sweeper."""
        for p in batch:
            turns, p.turns = p.turns, {}
            await self._ledger.uncharge(p.life, turns)

    async def _append(self, batch: Sequence[_Progress]) -> None:
        for p, reply in await self._at_lanes(self._ledger.append, batch):
            await self._appended(p, reply)

    async def _appended(self, p: _Progress, reply: Appended) -> None:
        match reply.word:
            case "appended":
                record = Record(
                    intent=p.intent,
                    lane=p.lane,
                    life=p.life,
                    status=Status.QUEUED,
                    position=reply.position,
                    created_at=reply.at,
                    updated_at=reply.at,
                )
                p.result = Submitted(record, False)
            case "exists" | "retired":
                await self._replay(p, confirmed=True)
            case "unreserved" | "used":
                p.result = _conflict(p, reply)
            case "full":
                p.result = QueueFull(p.lane, reply.depth)
            case "no_room":
                assert p.share is not None
                assert reply.room is not None
                p.result = NoRoom(p.share.owner, reply.room.count, reply.room.size)
            case "closed":
                await self._move(p)
            case "stale" | "ahead" | "other_life":
                """Claimed too long ago, or by a life that ended: the next round claims again."""

    async def _move(self, p: _Progress) -> None:
        """The lane is closed and was read to have neither record nor tombstone of this intent: choose another."""
        await self._refresh_routes(force=True)
        p.avoid.add(p.lane)
        lane = self._route(p)
        if lane is None:
            p.result = NoLane(p.intent.id.pool)
            return
        await self._ledger.move(p.intent.id, p.life, p.lane, lane)


def _late(p: _Progress) -> TxManagerError:
    return StaleClaim(f"idempotency key {p.intent.id.key!r} could not be settled on a lane; retry the same key")


def _conflict(p: _Progress, reply: Appended) -> TxManagerError:
    if p.use is None:
        return NotAllowed(f"lane {p.lane} takes only what its callers sign; nothing was accepted")
    nonce = p.use.nonce
    if reply.word == "used":
        why = f"nonce {nonce} is used on chain already; nothing was accepted"
    else:
        why = f"nonce {nonce} is not reserved for this token (any more); nothing was accepted"
    return NonceConflict(why, reply.cursor, nonce)
