"""How long lanes stand still when their worker dies: 10,000 intents in flight over 100 lanes, kill -9, a new worker.

    python -m bench.recovery [--lanes 100] [--inflight 100]

The sink takes everything and calls nothing included until the worker is dead. Then a new worker starts, and a lane
moves again when its queue is shorter than it was at the kill.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from typing import Any

from bench import contenders
from bench.figures import Stage, stage
from bench.processes import ROOT, Failed, Redis, ask, run
from txmanager.runtime.lane.worker import Timing

_SPARE = 20
"""Intents of each lane that are queued behind those in flight."""


def recover(lanes: int, inflight: int) -> dict[str, Any]:
    with stage() as at:
        ask(at.sink, "bench_hold")
        options = ("--lanes", str(lanes), "--window", str(inflight))
        run(contenders.ours("fill", at.redis.url, at.rpc, lanes * (2 * inflight + _SPARE), *options), 120)
        first = _serve(at, *options)
        try:
            _until(lambda: ask(at.sink, "bench_stats")["asked"].get("broadcast_tx_async", 0) >= lanes * inflight)
            sent = int(ask(at.sink, "bench_stats")["asked"]["broadcast_tx_async"])
            first.kill()
            began = time.perf_counter()
        finally:
            first.kill()
            first.wait()
        depths = _depths(at.redis)
        ask(at.sink, "bench_release")
        second = _serve(at, *options)
        try:
            moved: dict[bytes, float] = {}
            while len(moved) < lanes:
                for queue, depth in _depths(at.redis).items():
                    if depth < depths[queue]:
                        moved.setdefault(queue, time.perf_counter() - began)
                if time.perf_counter() - began > 120:
                    raise Failed(f"only {len(moved)} of {lanes} lanes moved within 120 s")
                time.sleep(0.05)
        finally:
            second.kill()
            second.wait()
        seconds = max(moved.values())
        return {
            "seconds": seconds,
            "leases": seconds * 1000 / Timing().lease_ms,
            "first_s": min(moved.values()),
            "in_flight": sent,
            "violations": ask(at.sink, "bench_stats")["violations"],
        }


def _serve(at: Stage, *options: str) -> subprocess.Popen[bytes]:
    command = contenders.ours("serve", at.redis.url, at.rpc, 0, *options)
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)


def _depths(redis: Redis) -> dict[bytes, int]:
    queues = list(redis.client.scan_iter("*:queue", count=1_000))
    return dict(zip(queues, (int(redis.client.xlen(queue)) for queue in queues), strict=True))


def _until(reached: Any) -> None:
    stop = time.monotonic() + 120
    while not reached():
        if time.monotonic() > stop:
            raise Failed("the worker did not fill its lanes within 120 s")
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=100)
    parser.add_argument("--inflight", type=int, default=100)
    options = parser.parse_args()
    print(json.dumps(recover(options.lanes, options.inflight)))


if __name__ == "__main__":
    main()
