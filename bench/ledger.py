"""How fast the Redis ledger is, as ratios to bare Lua calls on the same server in the same run.

`python -m bench.ledger [--fsync] [--seconds 2.0]` starts its own server on a free port and stops it. Absolute figures
are orientation; a ratio is what a machine cannot change. Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import redis.asyncio
import uvloop

from txmanager.core.ledger import Claim, Entry, Settlement, WriteAhead
from txmanager.core.models import Attempt, Fence, Intent, IntentId, LaneSpec, Outcome, Purpose, new_intent
from txmanager.core.states import Status
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.runner import Call
from txmanager.ledger.redis.scripts import build
from txmanager.runtime.accept.producer import Producer
from txmanager.stack.parts import valkey_binary

LANES = [f"near:testnet:relayer.testnet:ed25519.{n:044d}" for n in range(8)]
POOL = "bench"
BASE = 183_000_000_000_123
BARE = build("bare", "return redis.call('SET', KEYS[1], ARGV[1])")
"""The least that a step can be: one script, one key, one write of one payload. The goals are shares of how many of
these our own connection carries; redis-py's pipeline, about four times slower, is shown for comparison only."""
SAME = build("same", "return 1")
"""The same bytes on the wire as an operation, and nothing done with them."""
IN_FLIGHT = 4
"""Batches under way at once, for floors and operations alike."""

GOALS = {
    "worst operation / bare call": ("<=", 3.0),
    "submit in batches of 100 / floor": (">=", 0.35),
    "take+record+settle in batches of 64 / floor": (">=", 0.15),
    "bytes per live intent": ("<=", 1500.0),
}


# -- a server of our own


@asynccontextmanager
async def server(fsync: bool) -> AsyncIterator[str]:
    program = shutil.which("redis-server") or valkey_binary()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="txmanager-bench-") as folder:
        words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        words += ["--appendonly", "yes", "--appendfsync", "always"] if fsync else ["--appendonly", "no"]
        process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)  # noqa: ASYNC220
        try:
            await _answers(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait(10)


async def _answers(port: int) -> None:
    for _ in range(500):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
            continue
        writer.close()
        return
    raise SystemExit("the server did not start")


# -- what is measured


class Bench:
    def __init__(self, ledger: RedisLedger, plain: redis.asyncio.Redis, seconds: float) -> None:
        self.ledger = ledger
        self.producer = Producer(ledger, routes_for_s=60)
        self.seconds = seconds
        self.plain = plain
        self.fences: dict[str, Fence] = {}
        self._number = 0
        self._ready: list[Intent] = []
        self._cursors: dict[str, int] = {}

    def intents(self, count: int) -> list[Intent]:
        """Payloads of about 300 bytes, as an account creation has."""
        first, self._number = self._number, self._number + count
        return [
            new_intent(
                key=f"create:user-{n:09d}.testnet",
                pool=POOL,
                kind="near.create_account",
                payload={
                    "new_account_id": f"user-{n:09d}.testnet",
                    "public_key": "ed25519:" + "7" * 44,
                    "pad": "x" * 170,
                },
            )
            for n in range(first, first + count)
        ]

    def prepared(self, count: int) -> list[Intent]:
        """Made beforehand: building a request is the caller's work, not the ledger's."""
        batch, self._ready = self._ready[:count], self._ready[count:]
        return batch or self.intents(count)

    async def prepare(self) -> None:
        for lane in LANES:
            await self.ledger.register(LaneSpec(lane, POOL))
            lease = await self.ledger.lease(lane, "bench", "token", 3_600_000)
            assert lease.fence is not None
            self.fences[lane] = lease.fence
            await self.ledger.baseline(lease.fence, BASE)

    async def rate(self, turn: Callable[[], Awaitable[int]], seconds: float, in_flight: int = IN_FLIGHT) -> float:
        """Things per second, with a few batches under way at once."""
        start = time.perf_counter()

        async def stretch() -> int:
            count = 0
            while time.perf_counter() - start < seconds and (step := await turn()):
                count += step
            return count

        count = sum(await asyncio.gather(*(stretch() for _ in range(in_flight))))
        return count / (time.perf_counter() - start)

    async def against(
        self,
        floors: Sequence[Callable[[], Awaitable[int]]],
        turn: Callable[[], Awaitable[int]],
        in_flight: int = IN_FLIGHT,
    ) -> tuple[float, list[float], list[float]]:
        """Rate, rates of the floors and ratios to them: medians of rounds that take turns, so that load hits all."""
        rounds = []
        for _ in range(7):
            below = [await self.rate(floor, self.seconds / 7) for floor in floors]
            rounds.append((await self.rate(turn, self.seconds / 7, in_flight), below))
        own = statistics.median(own for own, _ in rounds)
        below = [statistics.median(r[1][n] for r in rounds) for n in range(len(floors))]
        ratios = [statistics.median(r[0] / r[1][n] for r in rounds) for n in range(len(floors))]
        return own, below, ratios

    # -- floors

    async def floor_pipelined(self) -> int:
        calls = [Call("bare", (f"bench:{{x}}:{n}",), ("x" * 300,)) for n in range(100)]
        await self.ledger.runner.run_many(calls)
        return len(calls)

    async def floor_redis_py(self) -> int:
        """The same hundred calls through redis-py's own pipeline, as any program would send them."""
        pipeline = self.plain.pipeline(transaction=False)
        for n in range(100):
            pipeline.evalsha(BARE.sha, 1, f"bench:{{x}}:{n}", "x" * 300)
        await pipeline.execute()
        return 100

    async def floor_callers(self) -> int:
        """As many round trips as a submit has."""

        async def one(n: int) -> None:
            await self.ledger.runner.run("bare", (f"bench:{{x}}:{n}",), ("x" * 300,))
            await self.ledger.runner.run("bare", (f"bench:{{x}}:{n}",), ("x" * 300,))

        await asyncio.gather(*(one(n) for n in range(64)))
        return 64

    # -- submitting

    async def submit_callers(self) -> int:
        await asyncio.gather(*(self.producer.submit(i) for i in self.prepared(64)))
        return 64

    async def submit_batch(self) -> int:
        await self.producer.submit_many(self.prepared(100))
        return 100

    # -- working

    async def work(self) -> int:
        """Take, write ahead and settle 64 intents of each lane."""
        return sum(await asyncio.gather(*(self._work_lane(lane) for lane in LANES)))

    async def _work_lane(self, lane: str) -> int:
        fence = self.fences[lane]
        taken = await self.ledger.take(fence, 64)
        if not taken:
            return 0
        cursor = self._cursors.setdefault(lane, BASE)
        writes = [WriteAhead(t.intent.id, t.life, t.position, _attempt(cursor + n)) for n, t in enumerate(taken)]
        self._cursors[lane] = await self.ledger.record_attempts(fence, cursor, writes)
        await self.ledger.settle(fence, [_done(w) for w in writes], cursor)
        return len(taken)

    async def fill(self, count: int) -> None:
        for _ in range(count // 1000):
            await self.producer.submit_many(self.intents(1000))

    async def drain(self) -> int:
        done = 0
        while count := await self.work():
            done += count
        return done

    async def retire_all(self) -> None:
        for lane in LANES:
            while records := await self.ledger.unretired(lane, 500):
                await self.ledger.retire(records)

    async def kept(self, count: int) -> float:
        """Bytes of a home that keeps its answer, by the server's own account."""
        ids = [f"default/{POOL}/create:user-{n:09d}.testnet" for n in range(1000, 1000 + count)]
        keys = [self.ledger._keys.home(IntentId.parse(id)) for id in ids]
        sizes = await self.ledger.runner.plain("x", *(("MEMORY", "USAGE", key) for key in keys))
        return float(statistics.mean(sizes))

    async def used(self) -> int:
        [info] = await self.ledger.runner.plain("x", ("INFO", "memory"))
        return int(dict(line.split(b":", 1) for line in info.split(b"\r\n") if b":" in line)[b"used_memory"])


def _attempt(nonce: int) -> Attempt:
    return Attempt(nonce, f"{nonce:044d}", b"r" * 250, Purpose.FIRST, 1_700_000_000_000, 180_000_000)


def _done(write: WriteAhead) -> Settlement:
    outcome = Outcome(Status.DONE, write.attempt.hash, write.attempt.nonce, {"gas_burnt": "424242424242"})
    return Settlement(write.id, write.life, write.position, outcome)


async def one_by_one(bench: Bench) -> dict[str, tuple[float, float]]:
    """Each operation alone, against a bare call with the very same keys and arguments: seconds per call."""
    found: dict[str, list[tuple[float, float]]] = {}
    runner = bench.ledger.runner
    run_many = runner.run_many

    async def watched(calls: Any, *, durable: bool = False) -> Any:
        start = time.perf_counter()
        replies = await run_many(calls, durable=durable)
        middle = time.perf_counter()
        await run_many([Call("same", c.keys, c.args) for c in calls], durable=durable)
        if len(calls) == 1:
            found.setdefault(calls[0].script, []).append((middle - start, time.perf_counter() - middle))
        return replies

    runner.run_many = watched  # type: ignore[method-assign]
    lane, fence = LANES[0], bench.fences[LANES[0]]
    cursor = bench._cursors.get(lane, BASE)
    for intent in bench.intents(300):
        [c] = await bench.ledger.claim([Claim(intent.id, intent.fingerprint, lane, "life")])
        await bench.ledger.append(lane, [Entry(intent, c.life, c.born)])
        await bench.ledger.renew([fence], 3_600_000)
        [t] = await bench.ledger.take(fence, 1)
        write = WriteAhead(intent.id, t.life, t.position, _attempt(cursor))
        cursor = await bench.ledger.record_attempts(fence, cursor, [write])
        await bench.ledger.read(intent.id)
        await bench.ledger.unfinished(fence)
        await bench.ledger.settle(fence, [_done(write)], cursor)
        await bench.ledger.retire(await bench.ledger.unretired(lane, 1))
        await bench.ledger.lane(lane)
    bench._cursors[lane] = cursor
    runner.run_many = run_many  # type: ignore[method-assign]
    return {name: tuple(map(statistics.median, zip(*pairs, strict=True))) for name, pairs in found.items()}


async def run(fsync: bool, seconds: float) -> dict[str, float]:
    async with server(fsync) as url:
        ledger = RedisLedger(url, durability="fsync" if fsync else "none", timeout_s=10.0)
        ledger.runner.scripts.update(bare=BARE, same=SAME)
        plain = redis.asyncio.Redis.from_url(url, single_connection_client=False)
        bench = Bench(ledger, plain, seconds)
        await bench.prepare()
        found: dict[str, float] = {}

        alone = await one_by_one(bench)
        for name, (own, floor) in sorted(alone.items()):
            found[f"  {name}: us"] = own * 1e6
            found[f"  {name} / bare call"] = own / floor
        found["worst operation / bare call"] = max(own / floor for own, floor in alone.values())

        empty = await bench.used()
        await bench.fill(20_000)
        found["bytes per live intent"] = (await bench.used() - empty) / 20_000
        await bench.drain()
        await bench.retire_all()
        found["bytes per final record"] = await bench.kept(200)

        await bench.floor_pipelined()  # loads the script for both floors
        floors = [bench.floor_pipelined, bench.floor_redis_py]
        bench._ready = bench.intents(int(60_000 * max(1.0, seconds)))
        own, [two], [share] = await bench.against([bench.floor_callers], bench.submit_callers)
        found["submit one by one, 64 callers /s"] = own
        found["two bare calls, 64 callers /s"] = two
        found["submit one by one, 64 callers / two bare calls"] = share
        await bench.drain()
        batch = "submit in batches of 100"
        found[f"{batch} /s"], below, shares = await bench.against(floors, bench.submit_batch)
        found["pipelined bare Lua /s (floor)"], found["pipelined bare Lua through redis-py /s"] = below
        found[f"{batch} / floor"], found[f"{batch} / redis-py"] = shares
        await bench.drain()
        await bench.fill(int(40_000 * max(1.0, seconds)))
        batch = "take+record+settle in batches of 64"
        found[f"{batch} /s"], _, shares = await bench.against(floors, bench.work, 1)  # 8 lanes at once
        found[f"{batch} / floor"], found[f"{batch} / redis-py"] = shares
        await plain.aclose()
        await ledger.close()
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--fsync", action="store_true", help="appendfsync always, as in production")
    parser.add_argument("--seconds", type=float, default=2.0, help="time per figure")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(run(options.fsync, options.seconds))
    if options.json:
        print(json.dumps(found, indent=1))
    missed = 0
    for name, value in found.items():
        goal = GOALS.get(name)
        word = ""
        if goal is not None:
            met = value <= goal[1] if goal[0] == "<=" else value >= goal[1]
            missed += not met
            word = f"   goal {goal[0]} {goal[1]:g}: {'met' if met else 'MISSED'}"
        if not options.json:
            print(f"{name:<56}{value:>12,.2f}{word}" if value < 100 else f"{name:<56}{value:>12,.0f}{word}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
