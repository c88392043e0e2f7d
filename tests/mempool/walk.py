"""A walk: random steps on any mempool, in a universe so small that everything meets everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from hypothesis import strategies as st

from txmanager.core.admission import Count, End, EndReason, Grant, Limits, Mempool, Offer, Verdict

SENDERS = [f"0x{digit * 40}" for digit in "abc"]
OWNERS = ("one", "two")
START_MS = 1_700_000_000_000
FAR = 2**53
"""Nonces begin here: a Lua number would lose the next one."""

limits = st.builds(
    Limits,
    capacity=st.integers(1, 8),
    high_watermark=st.sampled_from([0.5, 0.9, 1.0]),
    per_sender=st.integers(1, 6),
    kept_bytes=st.sampled_from([40, 400, 4_000, 1_000_000]),
    bump_percent=st.sampled_from([0, 10]),
    executors=st.integers(1, 3),
    hold_ms=st.just(3_000),
    idle_ms=st.just(20_000),
    count_fresh_ms=st.just(4_000),
    quiet_ms=st.sampled_from([0, 0, 2_000]),
    resend_ms=st.sampled_from([0, 3_000]),
    strict=st.booleans(),
    order=st.sampled_from(["nonce", "nonce", "nonce", "arrival", "none"]),
    next_after=st.sampled_from(["answer", "answer", "count"]),
)

_sender = st.integers(0, len(SENDERS) - 1)
_nonce = st.integers(0, 5)
_offer = st.tuples(_sender, _nonce, st.sampled_from([1, 2, 3, 10, 11, 10**30]), st.sampled_from([4, 9, 30]))
steps = st.one_of(
    st.tuples(
        st.just("admit"), st.lists(_offer, min_size=1, max_size=3), st.booleans(), st.sampled_from(["", *OWNERS])
    ),
    st.tuples(st.just("admit"), st.lists(_offer, min_size=1, max_size=3), st.just(True), st.sampled_from(OWNERS)),
    st.tuples(st.just("take"), st.sampled_from(OWNERS), st.integers(1, 3)),
    st.tuples(
        st.just("done"),
        st.integers(0, 9),
        st.sampled_from(get_args(Verdict)),
        st.sampled_from([0, 0, 1_500]),
        st.booleans(),
    ),
    st.tuples(st.just("done"), st.integers(0, 1), st.sampled_from(["sent", "retry"]), st.just(0), st.just(True)),
    st.tuples(st.just("observe"), _sender, st.integers(-1, 3), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("reopen"), st.integers(0, 9)),
    st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from(get_args(EndReason))),
    st.tuples(st.just("drop"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("expire")),
    st.tuples(st.just("heartbeat"), st.sampled_from(OWNERS)),
    st.tuples(st.just("heartbeat"), st.sampled_from(OWNERS)),
    st.tuples(st.just("leave"), st.sampled_from(OWNERS)),
    st.tuples(st.just("pass"), st.sampled_from([1, 500, 2_000, 5_000, 21_000])),
)
Step = tuple[Any, ...]


@dataclass
class Walker:
    """Remembers what a caller would: its grants, the hashes it saw, the counts it read."""

    limits: Limits
    now: int = START_MS
    height: int = 1
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SENDERS, FAR))
    blocks: dict[str, str] = field(default_factory=dict)
    grants: list[tuple[str, Grant]] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)

    def clock(self) -> int:
        return self.now

    def offer(self, sender: int, nonce: int, price: int, size: int) -> Offer:
        hash = f"0x{(sender * 10 + nonce) * 10**34 + price * 100 + size:064x}"
        if hash not in self.hashes:
            self.hashes.append(hash)
        return Offer(hash, SENDERS[sender], FAR + nonce, price, bytes([nonce]) * size)

    def read(self, address: str) -> Count:
        self.height += 1
        return Count(self.counts[address], f"0x{self.height:x}", self.height)

    def hash(self, index: int) -> str:
        return self.hashes[index % len(self.hashes)] if self.hashes else "0x" + "0" * 64

    async def step(self, mempool: Mempool, step: Step) -> Any:
        match step:
            case ("admit", offers, with_counts, owner):
                made = [self.offer(*o) for o in offers]
                counts = {o.sender: self.read(o.sender) for o in made} if with_counts else {}
                answers = await mempool.admit(made, counts, owner=owner)
                self.grants += [(owner, a.grant) for a in answers if a.grant is not None]
                return answers
            case ("take", owner, most):
                taken = await mempool.take(owner, most)
                self.grants += [(owner, grant) for grant in taken.grants]
                return taken
            case ("done", index, verdict, wait_ms, more):
                if not self.grants:
                    return None
                owner, grant = self.grants[-1 - index % len(self.grants)]
                done = await mempool.done(
                    grant, verdict, owner=owner, message="told", code="word", wait_ms=wait_ms, more=more
                )
                if done.grant is not None:
                    self.grants.append((owner, done.grant))
                return done
            case ("observe", sender, by, pending, orphaned):
                address = SENDERS[sender]
                self.counts[address] = min(FAR + 6, max(FAR, self.counts[address] + by))
                base = await mempool.base(address)
                read = self.read(address)
                stored = base.block if base is not None and orphaned else ""
                above = 0 if self.limits.strict or not pending else read.count + pending - 1
                return await mempool.observe({address: Count(read.count, read.block, read.height, above, stored)})
            case ("reopen", index):
                return await mempool.reopen([self.hash(index)])
            case ("end", index, reason):
                return await mempool.end([End(self.hash(index), reason, "why", "code")])
            case ("drop", index, by_sender):
                hash = self.hash(index)
                return await (mempool.drop(sender=SENDERS[index % 3]) if by_sender else mempool.drop(hash=hash))
            case ("expire",):
                return await mempool.expire()
            case ("heartbeat", owner):
                return await mempool.heartbeat(owner)
            case ("leave", owner):
                return await mempool.leave(owner)
            case ("pass", ms):
                self.now += ms
                return None
        raise AssertionError(step)


async def views(mempool: Mempool, walker: Walker) -> Any:
    """Everything there is to read."""
    return [
        [await mempool.base(address) for address in SENDERS],
        [await mempool.find(hash) for hash in walker.hashes],
        await mempool.content(),
        await mempool.content(SENDERS[0]),
        await mempool.followed(),
        await mempool.totals(),
    ]
