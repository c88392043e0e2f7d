"""The measurements: each answers a list of samples, one per repeat, or why there is none. Nothing is left running."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import contenders
from bench.processes import ROOT, Failed, Redis, ask, proxy, redis_server, run, signer_process, sink

RTT_MS = 20.0
RATE = 200.0
WIDE = 128
"""The window of the drain without delays: what an operator who wants throughput sets for a direct endpoint."""

BATCHES = (64, 16, 1)
"""How many intents of a lane share a call, where the server's work is measured."""


@dataclass
class Series:
    """One contender's samples of one figure."""

    name: str
    samples: list[float] = field(default_factory=list)
    violations: int = 0
    failed: str = ""
    more: dict[str, float] = field(default_factory=dict)

    @property
    def middle(self) -> float:
        return statistics.median(self.samples) if self.samples else 0.0

    @property
    def spread(self) -> str:
        if len(self.samples) < 2:
            return ""
        low, high = min(self.samples), max(self.samples)
        return f"{low:,.0f} to {high:,.0f}" if low >= 100 else f"{low:.2f} to {high:.2f}"


@dataclass
class Stage:
    redis: Redis
    sink: int
    rpc: int


@contextlib.contextmanager
def stage(
    *,
    fsync: str = "everysec",
    rtt_ms: float = 0.0,
    handler_ms: float = 0.0,
    server: str = "",
    jemalloc: bool = False,
) -> Iterator[Stage]:
    """A Redis, a sink and, where the network takes its time, a proxy: new ones for every sample."""
    with contextlib.ExitStack() as more:
        redis = more.enter_context(redis_server(fsync, server, jemalloc=jemalloc))
        port = more.enter_context(sink(handler_ms))
        yield Stage(redis, port, more.enter_context(proxy(port, rtt_ms)) if rtt_ms else port)


def sample(series: Series, measure: Callable[[], dict[str, Any]], key: str = "per_s") -> None:
    try:
        told = measure()
    except Failed as why:
        series.failed = str(why)
        return
    series.samples.append(float(told[key]))
    series.violations += int(told.get("violations", 0))
    series.more.update({k: float(v) for k, v in told.items() if isinstance(v, int | float)})


def drain_ours(
    jobs: int, *options: str, lanes: int = 8, source: Path = ROOT, jemalloc: bool = False, **stage_options: Any
) -> dict[str, Any]:
    with stage(jemalloc=jemalloc, **stage_options) as at:
        words = ("--lanes", str(lanes), *options)
        spent = at.redis.cpu_s()
        run(contenders.ours("fill", at.redis.url, at.rpc, jobs, *words), 600, source=source)
        before = at.redis.cpu_s(), at.redis.commands(), at.redis.scripts(), at.redis.written()
        told = run(contenders.ours("empty", at.redis.url, at.rpc, jobs, *words), 600, source=source)
        after = at.redis.cpu_s(), at.redis.commands(), at.redis.scripts(), at.redis.written()
        cpu_s, commands, scripts, written = (now - then for now, then in zip(after, before, strict=True))
        stats = ask(at.sink, "bench_stats")
        return {
            **told,
            **{name: stats[name] for name in ("violations", "connections", "requests")},
            "jobs": jobs,
            "redis_us": cpu_s / jobs * 1e6,
            "accept_us": (before[0] - spent) / jobs * 1e6,
            "commands": commands / jobs,
            "scripts": scripts / jobs,
            "written": written / jobs,
            "sink_us": stats["cpu_s"] / jobs * 1e6,
        }


def drain_signed(jobs: int, how: str) -> dict[str, Any]:
    """One lane with window 16 whose key is in `memory`, takes `30ms` per signature, or is in a `process` of its own."""
    from bench.ours import ACCOUNT, key_of

    with signer_process(key_of(0), ACCOUNT) if how == "process" else contextlib.nullcontext(how) as where:
        return drain_ours(jobs, "--signer", where, lanes=1)


def cost_per_intent(lanes: int, jobs: int) -> dict[str, Any]:
    """Processor time of worker and Redis for one intent more: what twice as many cost above what they cost, so that
    taking over the lanes, which is paid once, is not counted."""
    once, twice = drain_ours(jobs, lanes=lanes), drain_ours(2 * jobs, lanes=lanes)

    def total(told: dict[str, Any]) -> float:
        return float(told["cpu_us"] + told["redis_us"]) * int(told["jobs"])

    return {"cost_us": (total(twice) - total(once)) / jobs, "rss_mb": twice["rss_mb"]}


def million(queued: int, part: int) -> dict[str, float]:
    """The same part of the work off a short queue and off a very long one, then the rest of that: does it cost more,
    and does the worker grow?"""

    def cost(at: Stage, stop_after: int) -> tuple[float, dict[str, Any]]:
        before = at.redis.cpu_s()
        told = run(contenders.ours("empty", at.redis.url, at.rpc, part, "--stop-after", str(stop_after)), 1_800)
        return (told["cpu_s"] + at.redis.cpu_s() - before) / stop_after * 1e6, told

    with stage() as at:
        run(contenders.ours("fill", at.redis.url, at.rpc, part), 600)
        short, _ = cost(at, part)
    with stage() as at:
        run(contenders.ours("fill", at.redis.url, at.rpc, queued), 1_800)
        long, _ = cost(at, part)
        _, rest = cost(at, queued - 2 * part)
    return {"short": short, "long": long, "early_mb": rest["early_mb"], "late_mb": rest["rss_mb"], "queued": queued}


def drain_peer(
    name: str, jobs: int, *, rtt_ms: float = 0.0, handler_ms: float = 0.0, http: str = "aiohttp", work: str = "whole"
) -> dict[str, Any]:
    with stage(rtt_ms=rtt_ms, handler_ms=handler_ms) as at:
        command, env = contenders.peer(name, "drain", at.redis.url, at.rpc, jobs, RATE, http, work)
        told = run(command, 600, env)
        return {**told, "violations": ask(at.sink, "bench_stats")["violations"]}


def limit(name: str, jobs: int, work: str = "whole") -> dict[str, Any]:
    with stage() as at:
        return run(contenders.limit(name, at.redis.url, at.sink, jobs, work), 300)


def either(mode: str, at: Stage, jobs: int, *words: str, source: Path = ROOT) -> dict[str, Any]:
    """`bench/either.py` on one of the two trees."""
    env = {**os.environ, "PYTHONPATH": str(source)}
    return run(contenders.either(mode, at.redis.url, jobs, "--rpc", str(at.rpc), *words), 300, env, source)


def latency_ours(jobs: int, fsync: str = "everysec", durability: str = "none", source: Path = ROOT) -> dict[str, Any]:
    with stage(fsync=fsync) as at:
        return either("latency", at, jobs, "--durability", durability, source=source)


def where(jobs: int) -> dict[str, Any]:
    """The steps of a lone request, around the median and of the slowest 1 %."""
    return run([sys.executable, "-m", "bench.where", "--jobs", str(jobs), "--rate", f"{RATE:g}"], 300)


def submits(jobs: int, callers: int, source: Path = ROOT) -> dict[str, Any]:
    """Callers who submit one intent after the other, each of them on disk before its caller is told."""
    with stage(fsync="always") as at:
        words = ("--callers", str(callers), "--durability", "fsync")
        return either("submit", at, jobs, *words, source=source)


def server_cost(jobs: int, batch: int, source: Path = ROOT, *, jemalloc: bool = False) -> dict[str, Any]:
    """The server's processor time for one intent, accepted in batches and worked off with a window of that size."""
    with stage(jemalloc=jemalloc) as at:
        before = at.redis.cpu_s()
        either("fill", at, jobs, "--batch", str(batch), source=source)
        filled = at.redis.cpu_s()
        run(contenders.ours("empty", at.redis.url, at.rpc, jobs, "--window", str(batch)), 600, source=source)
        accept, work = filled - before, at.redis.cpu_s() - filled
        return {"us": (accept + work) / jobs * 1e6, "accept": accept / jobs * 1e6, "work": work / jobs * 1e6}


def latency_peer(name: str, jobs: int) -> dict[str, Any]:
    with stage() as at:
        command, env = contenders.peer(name, "latency", at.redis.url, at.rpc, jobs, RATE)
        return run(command, 300, env)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def accept(
    ledger: str, seconds: float, fsync: str = "everysec", durability: str = "none", source: Path = ROOT
) -> dict[str, Any]:
    with redis_server(fsync) as redis:
        command = [sys.executable, "-m", "bench.accept", ledger, "--redis", redis.url, "--durability", durability]
        return run([*command, "--seconds", str(seconds)], 120, source=source)


def memory(jobs: int) -> dict[str, float]:
    """Redis memory per live intent (300 B of payload) and per final record."""
    with stage() as at:
        empty = at.redis.memory()
        run(contenders.ours("fill", at.redis.url, at.rpc, jobs), 120)
        at.redis.forget_events()
        live = at.redis.memory()
        run(contenders.ours("empty", at.redis.url, at.rpc, jobs), 120)
        at.redis.forget_events()
        after = at.redis.memory()
        return {
            "live": (live - empty) / jobs,
            "final": at.redis.mean_size("ours:{h*}:default/*"),
            "final, with its tombstone": (after - empty) / jobs,
        }


def load() -> float:
    return os.getloadavg()[0]
