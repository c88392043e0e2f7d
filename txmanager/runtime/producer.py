"""Accepts intents: route, claim, append. Whatever dies between two steps, the next call with the same key goes on.

A returned `Submitted` means durable. An exception means that nothing was accepted, except `Unavailable`, which means
"unknown": the same key again finds out and never starts a second life.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
from txmanager.core.ledger import Appended, Claim, Claimed, Entry, Ledger
from txmanager.core.models import Intent, IntentId, Record
from txmanager.core.quotas import Charge
from txmanager.core.reservations import Use
from txmanager.core.router import Router
from txmanager.core.seal import Seals
from txmanager.core.states import LaneState, Status

_TRIES = 6
"""Claim, append and move can each be overtaken by others a few times; for ever means that something is wrong."""


@dataclass(frozen=True, slots=True)
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
    result: Submitted | TxManagerError | None = None
    pinned: str = ""
    """The only lane that will do."""
    use: Use | None = None
    charge: Charge | None = None
    avoid: set[str] = field(default_factory=set)


class Producer:
    def __init__(
        self,
        ledger: Ledger,
        *,
        routes_for_s: float = 1.0,
        new_life: Callable[[], str] = lambda: secrets.token_hex(8),
        seals: Seals | None = None,
    ) -> None:
        """With `seals`, workers can tell what was accepted here from what somebody wrote into the ledger."""
        self._ledger = ledger
        self._routes_for_s = routes_for_s
        self._new_life = new_life
        self._seals = seals
        self._routers: dict[str, Router] = {}
        self._active: dict[str, list[tuple[str, int]]] = {}
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
        charges: Sequence[Charge | None] = (),
    ) -> list[Submitted | TxManagerError]:
        """Accept a batch; each intent has its own result. Intents of one lane keep their order. With `lane`, new ones
        go to that lane of their pool and to no other; with `use` they use up a number that was reserved there.
        `charges` says, one by one, whose room in the queue they take."""
        await self._refresh_routes()
        progress = [
            _Progress(intent, pinned=lane, use=use, charge=charge)
            for intent, charge in zip(intents, charges or [None] * len(intents), strict=True)
        ]
        waiting = progress
        for _ in range(_TRIES):
            waiting = [p for p in waiting if p.result is None]
            if not waiting:
                break
            await self._claim(waiting)
            await self._append([p for p in waiting if p.result is None])
        return [p.result if p.result is not None else _late(p) for p in progress]

    async def replay(self, intent: Intent) -> Submitted | None:
        """The record of a key that was accepted with this same fingerprint; None for every other key."""
        p = _Progress(intent)
        await self._replay(p)
        return p.result if isinstance(p.result, Submitted) else None

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
        active: dict[str, list[tuple[str, int]]] = {}
        for route in await self._ledger.routes():
            if route.state is LaneState.ACTIVE:
                active.setdefault(route.pool, []).append((route.lane, route.weight))
        self._read_at = now
        if active != self._active:
            self._active = active
            self._routers = {pool: Router(lanes) for pool, lanes in active.items()}

    def _route(self, p: _Progress) -> str | None:
        pool = p.intent.id.pool
        if p.use is not None:
            # A number is of one lane, whatever became of it since: the append itself says whether it still takes bytes.
            return p.pinned if p.pinned not in p.avoid else None
        if p.pinned:
            routable = any(lane == p.pinned for lane, _ in self._active.get(pool, []))
            return p.pinned if routable and p.pinned not in p.avoid else None
        if p.avoid:
            lanes = [(lane, weight) for lane, weight in self._active.get(pool, []) if lane not in p.avoid]
            return Router(lanes).choose(p.intent.partition_key)
        router = self._routers.get(pool)
        return router.choose(p.intent.partition_key) if router else None

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

    async def _append(self, batch: Sequence[_Progress]) -> None:
        by_lane: dict[str, list[_Progress]] = {}
        for p in batch:
            by_lane.setdefault(p.lane, []).append(p)
        answers = await asyncio.gather(
            *(
                self._ledger.append(lane, [Entry(p.intent, p.life, p.born, p.use, self._seal(p), p.charge) for p in g])
                for lane, g in by_lane.items()
            )
        )
        for group, replies in zip(by_lane.values(), answers, strict=True):
            for p, reply in zip(group, replies, strict=True):
                await self._appended(p, reply)

    def _seal(self, p: _Progress) -> str:
        """Made for the lane and the life that the claim has now: a claim that moved is sealed again."""
        return self._seals.seal(p.intent, p.life, p.lane) if self._seals is not None else ""

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
                assert p.charge is not None
                assert reply.room is not None
                p.result = NoRoom(p.charge.owner, reply.room.count, reply.room.size)
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
