"""Run everything on this machine and write `docs/performance.md`.

    python -m bench [--jobs 20000] [--peer-jobs N] [--repeats 3] [--quick] [--only drain,network,...] [--keep]
                    [--against REV]

Ratios decide; absolute figures only say what this machine did. It refuses nothing when the machine is busy, but the
report shows the load it was made under.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import contenders, figures
from bench.figures import Series, percentile, sample
from bench.page import write_page
from bench.processes import ROOT, SERVERS, Failed, choose_server, redis_server, run
from txmanager.stack.allocator import find_jemalloc
from txmanager.stack.parts import valkey_binary

ONCE = ("where", "memory", "blocks", "growth", "million", "recovery")
"""Counted or slow: once is enough."""
PARTS = ("drain", "send", "server", "network", "latency", "where", "submit", "accept", "signers", *ONCE)
WITH_PEERS = ("drain", "send", "network", "latency")
_RESULTS = ROOT / ".cache" / "bench" / "results.json"
Results = dict[str, dict[str, Series]]


def _put(results: Results, part: str, name: str) -> Series:
    return results.setdefault(part, {}).setdefault(name, Series(name))


def measure_drain(results: Results, options: argparse.Namespace, peers: list[str]) -> None:
    wide = ("--window", str(figures.WIDE))
    durable = (*wide, "--durability", "fsync")

    def ours(name: str, *words: str, **how: Any) -> None:
        sample(_put(results, "drain", name), lambda: figures.drain_ours(options.jobs, *words, **how))

    for name in ("raw", "aiohttp", "lua"):
        sample(_put(results, "drain", f"limit: {name}"), lambda n=name: figures.limit(n, options.jobs))  # type: ignore[misc]
    ours("txmanager", *wide)
    ours("txmanager, fsync", *durable, fsync="always")
    if options.server == "valkey" and find_jemalloc(valkey_binary()):
        ours("txmanager, jemalloc", *wide, jemalloc=True)
        ours("txmanager, fsync, jemalloc", *durable, fsync="always", jemalloc=True)
    if options.server == "valkey" and shutil.which("redis-server"):
        ours("txmanager, on redis-server", *wide, server="redis")
    if options.tree:
        ours(options.baseline, *wide, source=options.tree)
        ours(f"{options.baseline}, fsync", *durable, fsync="always", source=options.tree)
    for name in peers:
        sample(_put(results, "drain", name), lambda n=name: figures.drain_peer(n, options.peer_jobs))  # type: ignore[misc]
    for name in contenders.BARE:
        bare = _put(results, "drain", f"{name}, bare connection")
        sample(bare, lambda n=name: figures.drain_peer(n, options.peer_jobs, http="bare"))  # type: ignore[misc]


def measure_send(results: Results, options: argparse.Namespace, peers: list[str]) -> None:
    """The lines of earlier pages: everybody else signs and sends, and does not look up what became of it."""
    for name in ("raw", "aiohttp"):
        sample(_put(results, "send", f"limit: {name}"), lambda n=name: figures.limit(n, options.jobs, "send"))  # type: ignore[misc]
    for name in peers:
        series = _put(results, "send", name)
        sample(series, lambda n=name: figures.drain_peer(n, options.peer_jobs, work="send"))  # type: ignore[misc]


def measure_network(results: Results, options: argparse.Namespace, peers: list[str]) -> None:
    rtt = figures.RTT_MS
    sample(_put(results, "network", "txmanager"), lambda: figures.drain_ours(options.jobs, rtt_ms=rtt))
    if options.tree:
        before = _put(results, "network", options.baseline)
        sample(before, lambda: figures.drain_ours(options.jobs, rtt_ms=rtt, source=options.tree))
    for lanes in (1, 2):
        few = _put(results, "few lanes", f"{lanes} lane{'s' * (lanes > 1)}")
        sample(few, lambda n=lanes: figures.drain_ours(options.jobs // 8 * n, rtt_ms=rtt, lanes=n))  # type: ignore[misc]
    sample(_put(results, "handler", "txmanager"), lambda: figures.drain_ours(options.jobs, handler_ms=rtt))
    jobs = max(400, options.peer_jobs // 4)
    for name in peers:
        sample(_put(results, "network", name), lambda n=name: figures.drain_peer(n, jobs, rtt_ms=rtt))  # type: ignore[misc]
        sample(_put(results, "handler", name), lambda n=name: figures.drain_peer(n, jobs, handler_ms=rtt))  # type: ignore[misc]


def measure_latency(results: Results, options: argparse.Namespace, peers: list[str]) -> None:
    jobs = 400 if options.quick else 1_000
    runs: dict[str, Callable[[], dict[str, Any]]] = {"txmanager": lambda: figures.latency_ours(jobs)}
    runs["txmanager, fsync"] = lambda: figures.latency_ours(jobs, "always", "fsync")
    if options.tree:
        runs[options.baseline] = lambda: figures.latency_ours(jobs, source=options.tree)
    for name in peers:
        if name not in contenders.BATCH_ONLY:
            runs[name] = lambda n=name: figures.latency_peer(n, jobs)  # type: ignore[misc]
    for name, measure in runs.items():
        low, high = _put(results, "p50", name), _put(results, "p99", name)
        try:
            told = measure()
        except Failed as why:
            low.failed = high.failed = str(why)
            continue
        low.samples.append(percentile(told["latencies_ms"], 0.5))
        high.samples.append(percentile(told["latencies_ms"], 0.99))
        if "body_ms" in told:
            _put(results, "body", name).samples.append(percentile(told["body_ms"], 0.5))


def measure_where(results: Results, options: argparse.Namespace) -> None:
    try:
        told = figures.where(500 if options.quick else 3_000)
    except Failed as why:
        print(f"    where: {why}", flush=True)
        return
    for name in ("around the median", "slowest 1 %"):
        series = _put(results, "where", name)
        series.samples.append(told[name]["ms"])
        series.more.update(told[name])


def measure_server(results: Results, options: argparse.Namespace) -> None:
    jobs = 800 if options.quick else 24_000  # what is paid once, as for the first use of each script, does not count
    for batch in figures.BATCHES:
        part = f"server, {batch}"
        count = jobs if batch > 1 else jobs // 3
        sample(_put(results, part, "txmanager"), lambda b=batch, n=count: figures.server_cost(n, b), "us")  # type: ignore[misc]
        if options.server == "valkey" and find_jemalloc(valkey_binary()):
            fast = _put(results, part, "txmanager, jemalloc")
            sample(fast, lambda b=batch, n=count: figures.server_cost(n, b, jemalloc=True), "us")  # type: ignore[misc]
        if options.tree:
            before = _put(results, part, options.baseline)
            sample(before, lambda b=batch, n=count: figures.server_cost(n, b, options.tree), "us")  # type: ignore[misc]


def measure_submit(results: Results, options: argparse.Namespace) -> None:
    few = 300 if options.quick else 2_000
    trees = {"txmanager": ROOT, **({options.baseline: options.tree} if options.tree else {})}
    for name, tree in trees.items():
        sample(_put(results, "submit", name), lambda t=tree: figures.submits(few, 1, t), "p50_ms")  # type: ignore[misc]
        sample(_put(results, "callers", name), lambda t=tree: figures.submits(few * 10, 64, t))  # type: ignore[misc]


def measure_accept(results: Results, options: argparse.Namespace) -> None:
    seconds = 2.0 if options.quick else 4.0
    sample(_put(results, "accept", "without Redis"), lambda: figures.accept("memory", seconds))
    sample(_put(results, "accept", "txmanager"), lambda: figures.accept("redis", seconds))
    sample(_put(results, "accept", "txmanager, fsync"), lambda: figures.accept("redis", seconds, "always", "fsync"))
    if options.tree:
        before = _put(results, "accept", f"{options.baseline}, fsync")
        sample(before, lambda: figures.accept("redis", seconds, "always", "fsync", options.tree))


def measure_memory(results: Results, options: argparse.Namespace) -> None:
    told = figures.memory(2_000 if options.quick else 20_000)
    for name, value in told.items():
        _put(results, "memory", name).samples.append(value)


def measure_blocks(results: Results, options: argparse.Namespace) -> None:
    for window, jobs in ((1, 6), (32, 320)):
        with redis_server() as redis:
            command = [sys.executable, "-m", "bench.blocks", "--redis", redis.url, "--window", str(window)]
            series = _put(results, "blocks", f"window {window}")
            sample(series, lambda c=command, j=jobs: run([*c, "--jobs", str(j)], 120))  # type: ignore[misc]


SIGNERS = {"in memory": "memory", "a KMS, 30 ms per signature": "30ms", "txmanager signer": "process"}


def measure_signers(results: Results, options: argparse.Namespace) -> None:
    jobs = min(options.jobs, 4_000)
    for name, how in SIGNERS.items():
        sample(_put(results, "signers", name), lambda h=how: figures.drain_signed(jobs, h))  # type: ignore[misc]


def measure_growth(results: Results, options: argparse.Namespace) -> None:
    jobs = 4_000 if options.quick else 40_000
    for name, lanes in (("8 lanes", 8), ("1,000 lanes", 1_000)):
        series = _put(results, "growth", name)
        sample(series, lambda n=lanes: figures.cost_per_intent(n, jobs), "cost_us")  # type: ignore[misc]


def measure_million(results: Results, options: argparse.Namespace) -> None:
    for name, value in figures.million(*((20_000, 2_000) if options.quick else (1_000_000, 20_000))).items():
        _put(results, "million", name).samples.append(value)


def measure_recovery(results: Results, options: argparse.Namespace) -> None:
    lanes, inflight = (10, 20) if options.quick else (100, 100)
    command = [sys.executable, "-m", "bench.recovery", "--lanes", str(lanes), "--inflight", str(inflight)]
    sample(_put(results, "recovery", "txmanager"), lambda: run(command, 400), "leases")


GROUPS = {
    "network": ("network", "few lanes", "handler"),
    "latency": ("p50", "p99", "body"),
    "server": tuple(f"server, {batch}" for batch in figures.BATCHES),
    "submit": ("submit", "callers"),
}
"""Parts that measure several figures at once."""


def _kept(only: list[str]) -> Results:
    """What the last run measured, without what is measured now."""
    if not _RESULTS.exists():
        return {}
    now = {group for part in only for group in GROUPS.get(part, (part,))}
    told = json.loads(_RESULTS.read_text())["results"]
    return {
        part: {name: Series(**one) for name, one in group.items()} for part, group in told.items() if part not in now
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--peer-jobs", type=int, default=None, help="jobs for each peer; as many as ours unless given")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="2,000 jobs, once: whether it runs, not how fast")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--keep", action="store_true", help="parts not asked for stay as the last run measured them")
    parser.add_argument("--server", choices=SERVERS, default=SERVERS[0], help="the embedded Valkey, or redis-server")
    parser.add_argument("--against", default="", metavar="REV", help="measure this commit in turn with yours")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "performance.md")
    options = parser.parse_args()
    if options.quick:
        options.jobs, options.repeats = 2_000, 1
    options.peer_jobs = options.peer_jobs or options.jobs
    options.only = options.only.split(",")
    unknown = [part for part in options.only if part not in PARTS]
    if unknown or options.jobs < 8 or options.repeats < 1:
        wrong = (
            f"--only: {unknown[0]!r} is not one of {', '.join(PARTS)}" if unknown else "--jobs at least 8, --repeats 1"
        )
        parser.error(wrong)
    return options


def main() -> None:
    options = parse()
    options.tree, options.baseline = None, f"commit {options.against}"
    with contextlib.ExitStack() as stack:
        if options.against:
            options.tree = stack.enter_context(contenders.tree_of(options.against))
        measure(options)


def measure(options: argparse.Namespace) -> None:
    choose_server(options.server)
    peers = contenders.install_peers()
    results: Results = _kept(options.only) if options.keep else {}
    kept = ", ".join(sorted(results))
    loads = []
    with redis_server() as redis:
        redis_version = redis.version
    for repeat in range(options.repeats):
        loads.append(figures.load())
        print(f"repeat {repeat + 1} of {options.repeats}, load {loads[-1]:.2f}", flush=True)
        for part in options.only:
            if repeat and part in ONCE:
                continue
            print(f"  {part}", flush=True)
            take = globals()[f"measure_{part}"]
            take(results, options, peers) if part in WITH_PEERS else take(results, options)
            for group in results.values():
                for series in group.values():
                    if series.failed:
                        print(f"    {series.name}: {series.failed}", flush=True)
    machine = {
        "date": datetime.date.today().isoformat(),
        "processor": f"{contenders.cpu_model()}, {os.cpu_count()} cores",
        "load average at the start of each repeat": ", ".join(f"{one:.2f}" for one in loads),
        **({"kept from an earlier run, under another load": kept} if kept else {}),
        "python": platform.python_version(),
        "server": redis_version,
        "txmanager": version("txmanager"),
        **contenders.versions(peers),
    }
    told = {part: {name: asdict(one) for name, one in group.items()} for part, group in results.items()}
    _RESULTS.parent.mkdir(parents=True, exist_ok=True)
    _RESULTS.write_text(json.dumps({"machine": machine, "results": told}))
    write_page(
        options.output, results, machine, jobs=options.jobs, peer_jobs=options.peer_jobs, repeats=options.repeats
    )
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
