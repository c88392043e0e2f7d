"""What callers' addresses cost that nobody uses: `python -m bench.many_lanes [--lanes 100000] [--active 1000]
[--rate 10] [--seconds 30]`.

Real processes: Valkey with fsync, anvil, an API and two workers. All lanes were registered; all but the active ones
were parked, as they are after an hour without use. Callers of active addresses reserve a number and send their bytes,
and one client follows the pool's stream. Measured are the processor time and the memory of API and workers, meanwhile
and once nobody calls, and how long lanes have no owner after one worker's kill -9.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import uvloop

from bench.console import used_s
from bench.processes import ROOT, redis_server
from tests.evm.machines import Anvil, Machine
from tests.evm.nonce_stage import Wallet
from tests.servers.processes import free_port
from tests.waiting import until
from txmanager.core.models import LaneSpec
from txmanager.ledger.redis import RedisLedger

LEASE_S = 10.0
_ABREAST = 256
_POOL = "callers"
_CONFIG = """
[ledger]
url = "{redis}"
prefix = "many"
durability = "fsync"
[worker]
lease_s = {lease}
[api]
port = {port}
[networks.local]
chain = "evm"
chain_id = 31337
rpc = [{{ url = "{rpc}", direct = true }}]
[pools.callers]
network = "local"
keyless = "any"
"""


def lane_of(address: str) -> str:
    return f"evm:31337:{address}"


async def register(ledger: RedisLedger, addresses: list[str], *, park: bool) -> None:
    """As callers bring lanes into being, and as the worker that owns one parks it."""

    async def one(address: str) -> None:
        lane = lane_of(address)
        await ledger.register(LaneSpec(lane, _POOL, weight=0, keyless=True))
        if park:
            leased = await ledger.lease(lane, "bench", "token", 600_000)
            assert leased.fence is not None
            assert await ledger.park(leased.fence, 0) == 0

    for start in range(0, len(addresses), _ABREAST):
        await asyncio.gather(*map(one, addresses[start : start + _ABREAST]))


class Programs:
    def __init__(self, config: Path, folder: Path) -> None:
        self._environment = {**os.environ, "TXMANAGER_CONFIG": str(config)}
        self._folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, program: str) -> None:
        log = (self._folder / f"{name}.log").open("wb")
        command = [sys.executable, "-m", f"txmanager.programs.{program}"]
        environment = {**self._environment, "TXMANAGER__WORKER__NAME": name}
        self.running[name] = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def used_s(self) -> dict[str, float]:
        return {name: used_s(process.pid) for name, process in self.running.items()}

    def resident_mb(self, name: str) -> float:
        pages = int(Path(f"/proc/{self.running[name].pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Callers:
    """Each sends a wei from an address of its own: a number first, then bytes at it."""

    def __init__(self, http: httpx.AsyncClient, wallets: list[Wallet]) -> None:
        self._http, self._wallets = http, wallets
        self.sent = self.told = 0

    async def call(self, rate: float, seconds: float) -> None:
        loop, tasks = asyncio.get_running_loop(), []
        began = loop.time()
        for n in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + n / rate - loop.time()))
            tasks.append(asyncio.create_task(self._send(random.choice(self._wallets))))
        await asyncio.gather(*tasks)

    async def _send(self, wallet: Wallet) -> None:
        where = {"address": wallet.address, "networkId": "local"}
        number = (await self._http.post("/evm/address/nonce", json=where)).raise_for_status().json()
        raw = await asyncio.to_thread(wallet.sign, int(number["nonce"]), wallet.address)
        body = {"signedTransaction": raw, "networkId": "local", "reservation": number["reservation"]}
        (await self._http.post("/evm/transaction/sendRaw", json=body)).raise_for_status()
        self.sent += 1

    async def follow(self) -> None:
        async with self._http.stream("GET", f"/v1/pools/{_POOL}/events", timeout=None) as stream:
            async for line in stream.aiter_lines():
                self.told += '"done"' in line


async def share_of_a_core(programs: Programs, work: Any) -> dict[str, float]:
    before, began = programs.used_s(), time.monotonic()
    await work
    took, after = time.monotonic() - began, programs.used_s()
    return {name: round(100 * (after[name] - before[name]) / took, 2) for name in after}


async def take_over(ledger: RedisLedger, programs: Programs, victim: str) -> tuple[int, float]:
    """How many lanes a killed worker had, and after how many leases all of them have another owner."""
    lost = {lane.id for lane in await ledger.lanes(_POOL) if lane.owner == victim}
    programs.running[victim].kill()
    began = time.monotonic()

    async def all_moved() -> bool:
        return not [1 for lane in await ledger.lanes(_POOL) if lane.id in lost and lane.owner == victim]

    await until(all_moved, 120, every=0.25, what="every lane has another owner")
    return len(lost), (time.monotonic() - began) / LEASE_S


@contextlib.asynccontextmanager
async def installation(lanes: int, active: int) -> AsyncIterator[tuple[RedisLedger, Programs, list[Wallet], int]]:
    port = free_port()
    made = tempfile.TemporaryDirectory(prefix="bench-many-")
    with made as folder, redis_server("always") as redis, Anvil("--block-time", "1") as machine:
        config = Path(folder) / "txmanager.toml"
        config.write_text(_CONFIG.format(redis=redis.url, rpc=machine.url, lease=LEASE_S, port=port))
        ledger = RedisLedger(redis.url, prefix="many", durability="fsync")
        await ledger.start()
        programs = Programs(config, Path(folder))
        try:
            idle = [f"0x{n:040x}" for n in range(1, lanes - active + 1)]
            await register(ledger, idle, park=True)
            wallets = await asyncio.to_thread(_funded, machine, active)
            await register(ledger, [wallet.address for wallet in wallets], park=False)
            for name in ("worker-1", "worker-2"):
                programs.start(name, "worker")
            programs.start("api", "api")
            yield ledger, programs, wallets, port
        finally:
            programs.stop()
            await ledger.close()


def _funded(machine: Machine, count: int) -> list[Wallet]:
    wallets = [Wallet() for _ in range(count)]
    for wallet in wallets:
        machine.fund(wallet.address, 10**21)
    return wallets


async def _answers(http: httpx.AsyncClient) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return (await http.get("/healthz")).is_success
    return False


async def measure(lanes: int, active: int, rate: float, seconds: float) -> dict[str, Any]:
    async with installation(lanes, active) as (ledger, programs, wallets, port):

        async def owned() -> bool:
            views = await ledger.lanes(_POOL)
            return len(views) == active and all(view.owner for view in views)

        await until(owned, 120, every=0.5, what="every active lane has an owner")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10.0) as http:
            await until(lambda: _answers(http), 60, what="the API answers")
            callers = Callers(http, wallets)
            following = asyncio.create_task(callers.follow())
            await callers.call(rate, 2 * LEASE_S)  # members and lanes have settled
            busy = await share_of_a_core(programs, callers.call(rate, seconds))
            await until(lambda: callers.told >= callers.sent, 60, what="the stream told every end")
            memory = {name: round(programs.resident_mb(name)) for name in programs.running}
            quiet = await share_of_a_core(programs, asyncio.sleep(seconds))
            following.cancel()
        lost, leases = await take_over(ledger, programs, "worker-1")
        return {
            "lanes": lanes,
            "active": active,
            "percent of a core": busy,
            "the same, quiet": quiet,
            "memory, MB": memory,
            "sent": callers.sent,
            "told": callers.told,
            "lanes of the killed worker": lost,
            "leases until all have another owner": round(leases, 2),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=100_000)
    parser.add_argument("--active", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    told = parser.parse_args()
    print(json.dumps(uvloop.run(measure(told.lanes, told.active, told.rate, told.seconds))))


if __name__ == "__main__":
    main()
