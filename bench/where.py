"""Where the time of a lone request goes, in the median and among the slowest 1 %: `python -m bench.where [--jobs 3000]
[--rate 200] [--fsync]`, as one line of JSON.

The latency run of `bench/either.py` with every intent traced: the worker's own spans say when each step was over.
Beside the steps stands how many other intents were under way when it was submitted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean, median

import structlog
import uvloop

from bench import ours
from bench.figures import percentile, stage
from bench.ours import Producer, RedisLedger, Timing, Worker, calm_collector, services

_STEPS = ("accepted", "written ahead", "sent", "seen on chain", "settled", "told")
_SPANS = {"write ahead": "written ahead", "send": "sent", "inclusion": "seen on chain", "settle": "settled"}
_TRACE = "00-{:032x}-{:016x}-01"
_LANES, _WINDOW, _WARM = 8, 16, 200


@dataclass
class Story:
    began: float
    beside: int
    """Others that were under way."""
    at: dict[str, float] = field(default_factory=dict)

    @property
    def ms(self) -> float:
        return (self.at["told"] - self.began) * 1000

    def steps(self) -> dict[str, float]:
        """How long each took, in ms; what the tracker saw before the send was answered took none."""
        took, before = {}, self.began
        for step in _STEPS:
            at = max(before, self.at.get(step, before))
            took[step], before = (at - before) * 1000, at
        return took


class Stories:
    """A `Tracer` that notes when spans end."""

    def __init__(self) -> None:
        self.of: dict[str, Story] = {}

    def span(
        self, parent: str, name: str, began_ms: int, ended_ms: int, facts: Mapping[str, str | int], **_: object
    ) -> None:
        if name in _SPANS and (story := self.of.get(str(facts["key"]))) is not None:
            story.at.setdefault(_SPANS[name], time.perf_counter())


async def measure(redis: str, rpc: int, options: argparse.Namespace) -> list[Story]:
    durability = "fsync" if options.fsync else "none"
    ledger = RedisLedger(redis, prefix="ours", durability=durability)
    await ledger.start()
    chain, served = services(rpc, _LANES, _WINDOW, direct=True)
    for service in served.values():
        await ledger.register(service.spec)
    stories = Stories()
    worker = Worker(ledger, served, timing=Timing(), tracer=stories)  # type: ignore[arg-type]
    running = asyncio.create_task(worker.run())
    while not worker.ready:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    producer, loop, under_way = Producer(ledger), asyncio.get_running_loop(), 0

    async def one(number: int) -> None:
        nonlocal under_way
        wanted = replace(ours.intent(number), trace=_TRACE.format(abs(number) + 1, 1))
        story = stories.of[wanted.id.key] = Story(time.perf_counter(), under_way)
        under_way += 1
        record = (await producer.submit(wanted)).record
        story.at["accepted"] = time.perf_counter()
        while not record.status.final:
            told = await ledger.wait_final(record.lane, record.id, 1.0)
            found = told if told is not None and told.life == record.life else await ledger.read(record.id)
            assert found is not None
            record = found
        story.at["told"] = time.perf_counter()
        under_way -= 1

    for warm in range(_WARM):
        await one(-1 - warm)
    stories.of.clear()
    gc.collect()
    rng, tasks, due = random.Random(1), [], loop.time()
    for number in range(options.jobs):
        due += rng.expovariate(options.rate)
        await asyncio.sleep(max(0.0, due - loop.time()))
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    worker.stop()
    await running
    await chain.close()
    await ledger.close()
    return list(stories.of.values())


def told(stories: list[Story]) -> dict[str, object]:
    ordered = sorted(stories, key=lambda story: story.ms)
    slowest = ordered[-max(1, len(ordered) // 100) :]
    middle = ordered[len(ordered) * 2 // 5 : len(ordered) * 3 // 5]

    def shown(some: list[Story]) -> dict[str, object]:
        steps = [story.steps() for story in some]
        return {
            "ms": round(median(story.ms for story in some), 2),
            **{step: round(fmean(one[step] for one in steps), 2) for step in _STEPS},
            "others under way": round(fmean(story.beside for story in some), 2),
        }

    every = [story.ms for story in ordered]
    return {
        "p50": round(percentile(every, 0.5), 2),
        "p99": round(percentile(every, 0.99), 2),
        "around the median": shown(middle),
        "slowest 1 %": shown(slowest),
        "each of the slowest": [
            {"ms": round(s.ms, 1), "beside": s.beside, **{k: round(v, 1) for k, v in s.steps().items()}}
            for s in slowest[-12:]
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=3_000)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--fsync", action="store_true", help="durable acceptance, instead of everysec")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    calm_collector()
    with stage(fsync="always" if options.fsync else "everysec") as at:
        print(json.dumps(told(uvloop.run(measure(at.redis.url, at.rpc, options)))))


if __name__ == "__main__":
    main()
