"""Ours, as a contender: the production ledger, worker and NEAR adapter, unchanged, in one process.

    python -m bench.ours drain|fill|empty|serve --redis URL --rpc PORT --jobs N [--window 16] ...

`drain` accepts all jobs first and then times the worker from its start to the last settlement. `fill` only accepts,
`empty` only works off what was accepted with the same keys (`--stop-after`: a part of it), `serve` works until it is
killed.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import hashlib
import json
import logging
import resource
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import structlog
import uvloop

from bench.signers import SlowKey, elsewhere
from txmanager.chains.near import NearChain, NearNetwork
from txmanager.core.decide import Policy
from txmanager.core.models import Intent, LaneSpec, new_intent
from txmanager.ledger.redis import RedisLedger
from txmanager.programs.process import calm_collector
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.accept.producer import Producer, Submitted
from txmanager.runtime.lane.worker import Service, Timing, Worker
from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.secret import Secret

POOL = "bench"
_ABREAST = 200
_STILL_S = 2.0


def intent(number: int) -> Intent:
    call = {
        "contract_id": "ft.near",
        "method_name": "ft_transfer",
        "args": {"receiver_id": "bob.near", "amount": str(number), "memo": "x" * 140},
        "gas": 30_000_000_000_000,
        "deposit": "1",
    }
    return new_intent(key=f"job-{number}", pool=POOL, kind="near.function_call", payload=call)


ACCOUNT = "relayer.near"


def key_of(lane: int) -> Ed25519Signer:
    """The same keys in every process: one may fill what another one empties."""
    return Ed25519Signer(Secret(hashlib.sha256(b"lane %d" % lane).digest()))


def services(
    port: int, lanes: int, window: int, direct: bool, signer: str = "memory"
) -> tuple[NearChain, dict[str, Service]]:
    keys = [elsewhere(key_of(n), signer) for n in range(lanes)]
    by_lane = {f"near:bench:{ACCOUNT}:{key.public_key}": key for key in keys}
    endpoint = Endpoint(f"http://127.0.0.1:{port}", direct=direct)
    chain = NearChain("bench", [endpoint], by_lane, settings=NearNetwork(86_400, 43_200))
    policy = Policy(window=window)
    return chain, {lane: Service(LaneSpec(lane, POOL), chain, policy) for lane in by_lane}


def settled(worker: Worker) -> int:
    return sum(
        int(sample.value)
        for family in worker.metrics.settled.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )


async def submit_all(producer: Producer, jobs: int) -> None:
    for first in range(0, jobs, _ABREAST):
        intents = [intent(n) for n in range(first, min(jobs, first + _ABREAST))]
        for result in await producer.submit_many(intents):
            assert isinstance(result, Submitted), result


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def drain(ledger: RedisLedger, worker: Worker, jobs: int) -> dict[str, Any]:
    gc.collect()
    early_mb = 0.0
    trips, began, spent = ledger.runner.round_trips, time.perf_counter(), time.process_time()
    running = asyncio.create_task(worker.run())
    seen, since = 0, began
    while (count := settled(worker)) < jobs:
        if running.done():
            await running
        await asyncio.sleep(0.01)
        if count > seen:
            seen, since = count, time.perf_counter()
        elif time.perf_counter() - since > _STILL_S:
            # A settle whose reply was lost is told `already` when it is repeated, and counted by nobody.
            views = [await ledger.lane(route.lane) for route in await ledger.routes()]
            if all(view is not None and view.depth == 0 for view in views):
                ended = since
                break
        if not early_mb and settled(worker) >= jobs // 10:
            early_mb = resident_mb()
    else:
        ended = time.perf_counter()
    seconds, spent = ended - began, time.process_time() - spent
    worker.stop()
    await running
    return {
        "seconds": seconds,
        "per_s": jobs / seconds,
        "cpu_us": spent / jobs * 1e6,
        "round_trips": (ledger.runner.round_trips - trips) / jobs,
        "cpu_s": spent,
        "early_mb": early_mb,
        "rss_mb": resident_mb(),
    }


async def count_calls(draining: Coroutine[Any, Any, dict[str, Any]], jobs: int) -> dict[str, Any]:
    """How many functions run per job, those in C included: what no busy machine can blur. It makes the run slow."""
    profile = cProfile.Profile()
    profile.enable()
    told = await draining
    profile.disable()
    return {**told, "calls": sum(entry.callcount for entry in profile.getstats()) / jobs}


async def contend(options: argparse.Namespace) -> dict[str, Any]:
    ledger = RedisLedger(options.redis, prefix="ours", durability=options.durability)
    await ledger.start()
    chain, served = services(options.rpc, options.lanes, options.window, not options.balanced, options.signer)
    for service in served.values():
        await ledger.register(service.spec)
    worker = Worker(ledger, served, timing=Timing())
    try:
        if options.mode in ("drain", "fill"):
            await submit_all(Producer(ledger), options.jobs)
        if options.mode == "fill":
            return {"filled": options.jobs}
        if options.mode == "serve":
            await worker.run()
        if options.count_calls:
            return await count_calls(drain(ledger, worker, options.jobs), options.jobs)
        told = await drain(ledger, worker, options.stop_after or options.jobs)
        return {**told, "signed_in": SlowKey.batches}
    finally:
        await chain.close()
        await ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("drain", "fill", "empty", "serve"))
    parser.add_argument("--redis", required=True)
    parser.add_argument("--rpc", type=int, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--stop-after", type=int, default=0)
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--durability", default="none")
    parser.add_argument("--count-calls", action="store_true", help="with `empty`: count function calls, slowly")
    parser.add_argument("--balanced", action="store_true", help="treat the endpoint as one behind a balancer")
    parser.add_argument("--signer", default="memory", help="where keys are: memory, 30ms, or unix:PATH of a signer")
    calm_collector()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(json.dumps(uvloop.run(contend(parser.parse_args()))))


if __name__ == "__main__":
    main()
