"""A ledger set up for a test, and the few steps that lead to any state an intent can be in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from txmanager.core.ledger import Claim, Claimed, Entry, Ledger, Settled, Settlement, WriteAhead
from txmanager.core.models import Attempt, Fence, Intent, Json, LaneSpec, Outcome, Purpose, Record, new_intent
from txmanager.core.states import Status
from txmanager.testing.waiting import until

POOL = "pool"
BASE = 183_000_000_000_123
"""A real NEAR nonce: too long for a Lua number to survive being printed."""
LONG_MS = 600_000


@dataclass
class Stage:
    ledger: Ledger
    expire: Callable[..., Any]
    """`await expire("home", id)` or `expire("tombstone", id, lane)`: the moment its time is over.
    `expire("schema", lane=lane)`: the moment an operator raised the lane's schema above ours.
    `expire("deadlines", lane=lane)`: the moment every reservation's, place's and turn's time is over.
    `expire("charges")`: the moment it is time to look at every open charge, and every corrected life is forgotten.
    `expire("backlog", lane=lane)`: the moment the homes of all that is in the backlog have forgotten it."""
    again: Callable[..., Ledger]
    """Another client of the same store; keyword arguments as of the backend."""
    names: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # -- producers

    async def lane(self, lane: str = "near:net:relayer:ed25519.a", **spec: Any) -> str:
        await self.ledger.register(LaneSpec(lane, POOL, **spec))
        return lane

    def intent(self, key: str = "", **payload: Json) -> Intent:
        key = key or f"key{next(self.names)}"
        return new_intent(key=key, pool=POOL, kind="near.transfer", payload={"to": "bob", **payload})

    async def claim(self, intent: Intent, lane: str, life: str = "") -> Claimed:
        [answer] = await self.ledger.claim(
            [Claim(intent.id, intent.fingerprint, lane, life or f"life{next(self.names)}")]
        )
        return answer

    async def entry(self, lane: str, intent: Intent | None = None) -> Entry:
        intent = intent or self.intent()
        claimed = await self.claim(intent, lane)
        return Entry(intent, claimed.life, claimed.born)

    async def queued(self, lane: str, count: int = 1) -> list[Entry]:
        intents = [self.intent() for _ in range(count)]
        claims = [Claim(i.id, i.fingerprint, lane, f"life{next(self.names)}") for i in intents]
        born = await self.ledger.claim(claims)
        entries = [Entry(i, c.life, c.born) for i, c in zip(intents, born, strict=True)]
        answers = await self.ledger.append(lane, entries)
        assert [a.word for a in answers] == ["appended"] * count
        return entries

    # -- owners

    async def own(self, lane: str, owner: str = "w1", *, lease_ms: int = LONG_MS) -> Fence:
        lease = await self.ledger.lease(lane, owner, f"token-{owner}-{next(self.names)}", lease_ms)
        assert lease.fence is not None, lease
        await self.ledger.baseline(lease.fence, BASE)
        return lease.fence

    async def take_over(self, lane: str, old: Fence, owner: str = "w2") -> Fence:
        """Another owner, while the old one still believes in its fence."""
        await self.ledger.renew([old], 1)

        async def over() -> bool:
            view = await self.ledger.lane(lane)
            return view is None or view.lease_ms == 0

        await until(over, every=0.001)
        return await self.own(lane, owner)

    def write(
        self,
        entry: Entry,
        nonce: int,
        purpose: Purpose = Purpose.FIRST,
        *,
        position: str = "",
        deaths: Sequence[str] = (),
        hash: str = "",
        counted: bool = False,
    ) -> WriteAhead:
        attempt = Attempt(
            nonce=nonce,
            hash=hash or f"hash{nonce}",
            raw=b"\x00\xffraw\n",
            purpose=purpose,
            signed_at=1_700_000_000_000,
            base_height=183_000_000_000_999,
            valid_until=10**18,
            terms={"gas": "300000000000000"},
        )
        proofs = {name: {"cause": "overtaken"} for name in deaths}
        return WriteAhead(entry.intent.id, entry.life, position, attempt, proofs, counted)

    async def inflight(self, fence: Fence, count: int = 1) -> list[WriteAhead]:
        """Queue, take and write ahead; nonces from the cursor on."""
        await self.queued(fence.lane, count)
        view = await self.ledger.lane(fence.lane)
        assert view is not None
        assert view.cursor is not None
        taken = await self.ledger.take(fence, count)
        assert len(taken) == count
        batch = [
            self.write(Entry(t.intent, t.life, 0), view.cursor + n, position=t.position) for n, t in enumerate(taken)
        ]
        await self.ledger.record_attempts(fence, view.cursor, batch)
        return batch

    async def cursor(self, lane: str) -> int:
        view = await self.ledger.lane(lane)
        assert view is not None
        assert view.cursor is not None
        return view.cursor

    def done(self, write: WriteAhead, **more: Any) -> Settlement:
        outcome = Outcome(Status.DONE, write.attempt.hash, write.attempt.nonce, {"gas_burnt": "424242424242424242"})
        return Settlement(write.id, write.life, write.position, outcome, **more)

    async def settled(self, fence: Fence, count: int = 1) -> list[WriteAhead]:
        batch = await self.inflight(fence, count)
        answers = await self.ledger.settle(fence, [self.done(w) for w in batch])
        assert [a.word for a in answers] == ["settled"] * count
        return batch

    async def settle_one(self, fence: Fence, settlement: Settlement) -> Settled:
        [answer] = await self.ledger.settle(fence, [settlement])
        return answer

    async def held(self, fence: Fence) -> WriteAhead:
        [write] = await self.inflight(fence)
        assert await self.ledger.hold(fence, write.id, write.life, "lost_proof", {"height": "183000000000123"})
        return write

    async def read(self, write: WriteAhead | Entry) -> Record:
        record = await self.ledger.read(write.id if isinstance(write, WriteAhead) else write.intent.id)
        assert record is not None
        return record

    async def statuses(self, lane: str) -> list[tuple[str, str]]:
        return [(e.intent.key, e.status.value) for e in await self.ledger.events(lane)]
