"""The Durable Object ledger against Redis with fsync, and resident lanes' front against a Worker that only answers.

All of it interleaved in one run: `python -m bench.durable [--rounds 5]`.
Data is on tmpfs, so that the stores are compared and not this machine's disk. Both stores are measured again behind
20 ms of network. Medians of the rounds; ratios decide.
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
from urllib.parse import urlsplit

from bench.fronts import Front, Hello, idle
from bench.processes import proxy
from tests.servers import DURABLE, Server
from tests.servers.workerd import OWNER, Workerd
from txmanager.core.ledger import Claim, Entry, Ledger, Settlement, WriteAhead
from txmanager.core.models import Attempt, Fence, Intent, LaneSpec, Outcome, Purpose, new_intent
from txmanager.core.states import Status
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.redis import RedisLedger

POOL = "p"
BASE = 183_000_000_000_123


class Store:
    """One of the two, with a lane of its own."""

    def __init__(self, name: str, ledger: Ledger, lane: str = "near:bench:relayer:ed25519.a") -> None:
        self.name, self.ledger, self.lane = name, ledger, lane
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
async def stores(network_ms: float = 0.0):
    """Both, each behind a network of its own that takes so long there and back."""
    async with AsyncExitStack() as running:
        redis = running.enter_context(Server(config=DURABLE))
        workerd = running.enter_context(Workerd())
        redis_url, durable_url = redis.url, workerd.url
        if network_ms:
            redis_port = urlsplit(redis.url).port
            assert redis_port is not None
            redis_url = f"redis://127.0.0.1:{running.enter_context(proxy(redis_port, network_ms))}/0"
            durable_url = workerd.url_for(OWNER, running.enter_context(proxy(workerd.port, network_ms)))
        both = [
            Store("redis", RedisLedger(redis_url, prefix="bench", timeout_s=30.0)),
            Store("durable", DurableObjectLedger(durable_url, prefix="bench", timeout_s=30.0)),
        ]
        for store in both:
            running.push_async_callback(store.ledger.close)
            await store.open()
        yield both


async def timed(work: Awaitable[None]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


PARTS: list[tuple[str, Callable[[Store, int], Awaitable[None]]]] = [
    ("accept in batches of 32", lambda store, count: store.in_batches(count)),
    ("accept by 64 callers", lambda store, count: store.unbatched(count)),
    ("drain, window 128", lambda store, count: store.drain(2 * count)),
]


class Rates:
    """What was measured, by what and by whom."""

    def __init__(self) -> None:
        self._taken: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    async def take(self, part: str, who: str, count: int, work: Awaitable[None]) -> None:
        self._taken[part, who].append(count / await timed(work))

    def median(self, part: str, who: str) -> float:
        return statistics.median(self._taken[part, who])

    def table(self) -> dict[str, int]:
        return {f"{part}: {who}": round(self.median(part, who)) for part, who in self._taken}


async def measure(rounds: int, count: int, deep: int, idle_s: float) -> dict[str, object]:
    rates, network = Rates(), " at 20 ms"
    async with stores() as near, stores(20.0) as far:
        with Front() as front, Hello() as hello:
            for _ in range(rounds):
                for part, work in PARTS:
                    for store in near:
                        await rates.take(part, store.name, count, work(store, count))
                    for store in far:
                        await rates.take(part + network, store.name, count // 2, work(store, count // 2))
                for who in (hello, front):
                    await rates.take("accept through the front", who.name, count, who.accept(count))
        shallow, deeper = near[1], Store("deep", near[1].ledger, "near:bench:relayer:ed25519.b")
        await deeper.open()
        await deeper.in_batches(deep)
        for _ in range(2 * rounds):
            for store in (shallow, deeper):
                await rates.take("append", store.name, 320, store.in_batches(320))
    ratios = {
        part: round(rates.median(part, "durable") / rates.median(part, "redis"), 3)
        for part in [name + far_ for far_ in ("", network) for name, _ in PARTS]
    }
    through = rates.median("accept through the front", "front") / rates.median("accept through the front", "hello")
    return {
        "per_second": rates.table(),
        "durable / redis": ratios,
        "front / hello Worker": round(through, 3),
        f"append at depth {deep} / at depth 100": round(
            rates.median("append", "durable") / rates.median("append", "deep"), 2
        ),
        f"starts and requests of an idle lane in {idle_s:.0f} s": await idle(idle_s),
        "load": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.durable", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=640)
    parser.add_argument("--deep", type=int, default=100_000)
    parser.add_argument("--idle", type=float, default=60.0)
    told = parser.parse_args()
    if os.path.isdir("/dev/shm"):
        tempfile.tempdir = "/dev/shm"
    print(json.dumps(asyncio.run(measure(told.rounds, told.count, told.deep, told.idle)), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
