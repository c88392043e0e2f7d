"""What is measured in the same way on two trees: run by its path, with the tree in PYTHONPATH.

    python bench/either.py fill --redis URL --jobs N --batch 64
    python bench/either.py submit --redis URL --jobs N --callers 64 [--durability fsync]
    python bench/either.py latency --redis URL --jobs N --rpc PORT --rate 200 [--durability fsync]

`fill` accepts `batch` intents for each of 8 lanes in a call. `submit` has callers who submit one intent after the
other, and times each call. `latency` submits at a rate and times each intent from `submit` until a waiting caller in
the same process holds the result. Only what `bench.ours` of both trees has may be used here.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import random
import time
from typing import Any

import structlog
import uvloop

from bench import ours
from bench.ours import Producer, RedisLedger, Timing, Worker, calm_collector, services

LANES, WINDOW = 8, 16
_WARM = 200


async def fill(ledger: RedisLedger, _: Worker, options: argparse.Namespace) -> dict[str, Any]:
    ours._ABREAST = options.batch * LANES
    await ours.submit_all(Producer(ledger), options.jobs)
    return {"filled": options.jobs}


async def submit(ledger: RedisLedger, _: Worker, options: argparse.Namespace) -> dict[str, Any]:
    producer = Producer(ledger)
    numbers, took = iter(range(-_WARM, options.jobs)), []

    async def caller() -> None:
        for number in numbers:
            wanted = ours.intent(number)
            began = time.perf_counter()
            await producer.submit(wanted)
            if number >= 0:
                took.append(time.perf_counter() - began)

    gc.collect()
    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(options.callers)))
    seconds = time.perf_counter() - began
    middle = sorted(took)[len(took) // 2]
    return {"per_s": (options.jobs + _WARM) / seconds, "p50_ms": middle * 1000}


async def latency(ledger: RedisLedger, worker: Worker, options: argparse.Namespace) -> dict[str, Any]:
    producer, took = Producer(ledger), []
    running = asyncio.create_task(worker.run())
    while not worker.ready:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    loop = asyncio.get_running_loop()

    async def one(number: int) -> None:
        wanted = ours.intent(number)
        began = time.perf_counter()
        record = (await producer.submit(wanted)).record
        while not record.status.final:
            told: Any = await ledger.wait_final(record.lane, record.id, 1.0)  # older trees never answer a record
            found = told if told is not None and told.life == record.life else await ledger.read(record.id)
            assert found is not None
            record = found
        took.append(time.perf_counter() - began)

    for warm in range(_WARM):
        await one(-1 - warm)
    took.clear()
    gc.collect()
    rng, tasks, due = random.Random(1), [], loop.time()
    for number in range(options.jobs):
        due += rng.expovariate(options.rate)
        await asyncio.sleep(max(0.0, due - loop.time()))
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    worker.stop()
    await running
    return {"latencies_ms": [round(s * 1000, 3) for s in took]}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    ledger = RedisLedger(options.redis, prefix="ours", durability=options.durability)
    await ledger.start()
    chain, served = services(options.rpc, LANES, WINDOW, direct=True)
    for service in served.values():
        await ledger.register(service.spec)
    try:
        told: dict[str, Any] = await globals()[options.mode](ledger, Worker(ledger, served, timing=Timing()), options)
        return told
    finally:
        await chain.close()
        await ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("fill", "submit", "latency"))
    parser.add_argument("--redis", required=True)
    parser.add_argument("--rpc", type=int, default=9)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--durability", default="none")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    calm_collector()
    print(json.dumps(uvloop.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
