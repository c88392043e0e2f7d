"""The Durable Object ledger against Redis with fsync, interleaved in one run: `python -m bench.durable [--rounds 5]`.

Both keep their data on tmpfs, so that the stores are compared and not this machine's disk. Medians of the rounds;
ratios decide.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from tests.servers import DURABLE, Server
from tests.servers.workerd import Workerd
from txmanager.core.ledger import Claim, Entry, Ledger, Settlement, WriteAhead
from txmanager.core.models import Attempt, Fence, Intent, LaneSpec, Outcome, Purpose, new_intent
from txmanager.core.states import Status
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.redis import RedisLedger

POOL = "p"
BASE = 183_000_000_000_123


class Store:
    """One of the two, with a lane of its own."""

    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name, self.ledger = name, ledger
        self.lane = "near:bench:relayer:ed25519.a"
        self._count = 0
        self._cursor = BASE

    async def open(self) -> None:
        await self.ledger.register(LaneSpec(self.lane, POOL))
        lease = await self.ledger.lease(self.lane, "w", "token", 3_600_000)
        assert lease.fence is not None
        self.fence: Fence = lease.fence
        await self.ledger.baseline(self.fence, BASE)

    def intent(self) -> Intent:
        self._count += 1
        payload = {"receiver_id": "bob.near", "amount": "1000000000000000000000000"}
        return new_intent(key=f"{self.name}-{self._count}", pool=POOL, kind="near.transfer", payload=payload)

    async def accept(self, intents: list[Intent]) -> None:
        claimed = await self.ledger.claim([Claim(i.id, i.fingerprint, self.lane, i.id.key) for i in intents])
        entries = [Entry(i, c.life, c.born) for i, c in zip(intents, claimed, strict=True)]
        assert all(a.word == "appended" for a in await self.ledger.append(self.lane, entries))

    async def in_batches(self, count: int) -> None:
        for _ in range(count // 32):
            await self.accept([self.intent() for _ in range(32)])

    async def unbatched(self, count: int) -> None:
        """64 callers, one intent at a time."""

        async def caller() -> None:
            for _ in range(count // 64):
                await self.accept([self.intent()])

        await asyncio.gather(*(caller() for _ in range(64)))

    async def drain(self, count: int) -> None:
        """Take, write ahead, settle and retire with a window of 128."""
        left = count
        while left > 0 and (taken := await self.ledger.take(self.fence, min(128, left))):
            writes = [
                WriteAhead(
                    t.intent.id,
                    t.life,
                    t.position,
                    Attempt(self._cursor + n, f"hash{self._cursor + n}", bytes(200), Purpose.FIRST, 1),
                )
                for n, t in enumerate(taken)
            ]
            self._cursor = await self.ledger.record_attempts(self.fence, self._cursor, writes)
            done = [Outcome(Status.DONE, w.attempt.hash, w.attempt.nonce, {"gas": "1"}) for w in writes]
            ends = [Settlement(w.id, w.life, w.position, o) for w, o in zip(writes, done, strict=True)]
            await self.ledger.settle(self.fence, ends, self._cursor - 1)
            await self.ledger.retire(await self.ledger.unretired(self.lane, 128))
            left -= len(taken)


@asynccontextmanager
async def stores():
    async with AsyncExitStack() as running:
        redis = running.enter_context(Server(config=DURABLE))
        workerd = running.enter_context(Workerd())
        both = [
            Store("redis", RedisLedger(redis.url, prefix="bench", timeout_s=30.0)),
            Store("durable", DurableObjectLedger(workerd.url, prefix="bench", timeout_s=30.0)),
        ]
        for store in both:
            running.push_async_callback(store.ledger.close)
            await store.open()
        yield both


async def timed(work: Awaitable[None]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def measure(rounds: int, count: int, deep: int) -> dict[str, object]:
    taken: defaultdict[str, list[float]] = defaultdict(list)
    async with stores() as both:
        for _ in range(rounds):
            parts: list[tuple[str, Callable[[Store], Awaitable[None]]]] = [
                ("accept in batches of 32", lambda s: s.in_batches(count)),
                ("accept by 64 callers", lambda s: s.unbatched(count)),
                ("drain, window 128", lambda s: s.drain(2 * count)),
            ]
            for part, work in parts:
                for store in both:
                    taken[f"{part}: {store.name}"].append(count / await timed(work(store)))
        durable = both[1]
        shallow = statistics.median([await timed(durable.in_batches(320)) for _ in range(3)])
        await durable.in_batches(deep)
        deeply = statistics.median([await timed(durable.in_batches(320)) for _ in range(3)])
    rates = {name: round(statistics.median(found)) for name, found in taken.items()}
    ratios = {
        part: round(rates[f"{part}: durable"] / rates[f"{part}: redis"], 3)
        for part in ("accept in batches of 32", "accept by 64 callers", "drain, window 128")
    }
    return {
        "per_second": rates,
        "durable / redis": ratios,
        f"append at depth {deep} / at depth 100": round(deeply / shallow, 2),
        "load": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.durable", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=640)
    parser.add_argument("--deep", type=int, default=20_000)
    told = parser.parse_args()
    if os.path.isdir("/dev/shm"):
        tempfile.tempdir = "/dev/shm"
    print(json.dumps(asyncio.run(measure(told.rounds, told.count, told.deep)), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
