"""How many intents a second `POST /v1/intents` accepts, keep-alive, with Redis and without.

    python -m bench.accept redis|memory --redis URL --seconds 4 [--connections 64]

The application is the production one in both cases; `memory` puts the in-process ledger in the place of Redis.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import time
from typing import Any

import orjson
import uvloop

from bench.ours import POOL, intent
from txmanager.api import build_app
from txmanager.api.server import ApiServer
from txmanager.core.ledger import Ledger
from txmanager.core.models import LaneSpec
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.redis import RedisLedger
from txmanager.programs.process import calm_collector
from txmanager.rpc.connection import Connection, connect
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings
from txmanager.signing.ed25519 import Ed25519Signer

_TOKEN = "bench-" + "0" * 40


def settings(url: str, durability: str) -> Settings:
    return Settings.model_validate(
        {
            "ledger": {"url": url, "durability": durability},
            "networks": {"bench": {"chain": "near", "rpc": [{"url": "http://127.0.0.1:9"}]}},
            "pools": {POOL: {"network": "bench", "account": "relayer.near", "keys": ["env:NOT_READ"]}},
            "api": {
                "port": 0,
                "tokens": [
                    {"name": "bench", "sha256": hashlib.sha256(_TOKEN.encode()).hexdigest(), "scopes": ["submit"]}
                ],
            },
        }
    )


async def load(port: int, worker: int, connections: int, seconds: float) -> int:
    """One process of callers; every answer must be a first acceptance."""
    until = time.monotonic() + seconds
    payload = orjson.dumps(intent(1).payload)
    body = b'{"pool":"bench","kind":"near.function_call","payload":%b}' % payload
    head = (
        f"POST /v1/intents HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {_TOKEN}\r\nContent-Type: application/json\r\n"
    )
    tail = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    async def one(number: int) -> int:
        link: Connection = await connect("127.0.0.1", port, None, None, "api", 1 << 20, 5.0)
        count = 0
        while time.monotonic() < until:
            key = f"Idempotency-Key: {worker}-{number}-{count}\r\n"
            response = await link.request((head + key).encode() + tail)
            assert response.status == 202, response.body
            count += 1
        return count

    return sum(await asyncio.gather(*(one(n) for n in range(connections))))


def _callers(port: int, connections: int, seconds: float, told: Any) -> None:
    told.put(uvloop.run(load(port, 0, connections, seconds)))


async def serve(options: argparse.Namespace) -> dict[str, Any]:
    url = options.redis if options.ledger == "redis" else "memory://"
    chosen = settings(url, options.durability)
    ledger: Ledger = MemoryLedger()
    if options.ledger == "redis":
        ledger = RedisLedger(url, prefix="accept", durability=options.durability)
        await ledger.start()
    for _ in range(8):
        await ledger.register(LaneSpec(f"near:bench:relayer.near:{Ed25519Signer.generate().public_key}", POOL))
    server = ApiServer(build_app(TxManager(ledger), chosen, probes={}), chosen.api)
    listening = asyncio.Event()
    running = asyncio.create_task(server.run(listening.set))
    await listening.wait()
    spawn = multiprocessing.get_context("spawn")
    told: Any = spawn.Queue()
    callers = spawn.Process(target=_callers, args=(server.port, options.connections, options.seconds, told))
    spent = time.process_time()
    callers.start()
    count = await asyncio.get_running_loop().run_in_executor(None, told.get)
    callers.join()
    spent = time.process_time() - spent
    server.stop()
    await running
    return {"per_s": count / options.seconds, "cpu_us": spent / count * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ledger", choices=("redis", "memory"))
    parser.add_argument("--redis", default="")
    parser.add_argument("--durability", default="none")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--connections", type=int, default=64)
    calm_collector()
    print(json.dumps(uvloop.run(serve(parser.parse_args()))))


if __name__ == "__main__":
    main()
