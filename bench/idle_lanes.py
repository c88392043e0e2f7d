"""What a worker costs while nothing happens: `python -m bench.idle_lanes [--lanes 1000] [--seconds 20]`.

A real Redis, a devnet and one worker that owns every lane; measured is the worker's own process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time

import uvloop

from tests.devnet.process import Devnet
from tests.runtime.stage import lane_of, make_chain
from tests.servers import DURABLE, Server
from tests.waiting import until
from txmanager.core.decide import Policy
from txmanager.core.models import LaneSpec
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.lane.worker import Service, Timing, Worker


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(devnet: Devnet, server: Server, lanes: int, seconds: float) -> dict[str, float]:
    [account] = devnet.told["accounts"]
    accounts = [{**account, **key} for key in account["keys"][:lanes]]
    chain = make_chain(devnet.url, accounts)
    services = {lane_of(a): Service(LaneSpec(lane_of(a), "p"), chain, Policy()) for a in accounts}
    ledger = RedisLedger(server.url, prefix="idle")
    timing = Timing()
    worker = Worker(ledger, services, timing=timing)
    began = time.monotonic()
    task = asyncio.create_task(worker.run())
    await until(lambda: len(worker.owned) == lanes, 120, what="every lane is owned")
    await until(lambda: recovered(ledger, lanes), 120, every=0.5, what="every lane is recovered")
    started = time.monotonic() - began
    await asyncio.sleep(timing.tick_s)  # what recovery still had to read is no idle cost
    with server.client() as client:
        before, commands = (cpu_s(), ledger.runner.round_trips), commands_of(client)
        since = time.monotonic()
        await asyncio.sleep(seconds)
        took = time.monotonic() - since
        used, trips = cpu_s() - before[0], ledger.runner.round_trips - before[1]
        commands = commands_of(client) - commands
    worker.stop()
    await task
    await chain.close()
    await ledger.close()
    return {
        "lanes": lanes,
        "start_s": round(started, 1),
        "cpu_percent": round(100 * used / took, 2),
        "round_trips_per_s": round(trips / took, 2),
        "server_commands_per_s": round(commands / took, 1),
    }


async def recovered(ledger: RedisLedger, lanes: int) -> bool:
    return sum(lane.cursor is not None for lane in await ledger.lanes()) == lanes


def commands_of(client: object) -> int:
    stats = client.info("stats")  # type: ignore[attr-defined]
    return int(stats["total_commands_processed"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    told = parser.parse_args()
    with Devnet(accounts=1, keys=told.lanes, block_ms=600) as devnet, Server(config=DURABLE) as server:
        print(json.dumps(uvloop.run(measure(devnet, server, told.lanes, told.seconds))))


if __name__ == "__main__":
    sys.exit(main())
