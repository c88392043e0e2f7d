"""What nothing built on the same parts can pass: signing, posting and looking up without a queue, and bare scripts.

python -m bench.limits raw|aiohttp|lua --redis URL --sink PORT --jobs N [--work send]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from bench.peers.job import KEYS, Key, SessionLink, look_up, outcome
from txmanager.ledger.redis import RedisLedger
from txmanager.rpc.connection import connect

_HEAD = b"POST / HTTP/1.1\r\nHost: sink\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


async def each_key(jobs: int, work: Callable[[int, range], Awaitable[None]]) -> dict[str, Any]:
    began, spent = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work(key, range(key, jobs, KEYS)) for key in range(KEYS)))
    seconds, spent = time.perf_counter() - began, time.process_time() - spent
    return {"seconds": seconds, "per_s": jobs / seconds, "cpu_us": spent / jobs * 1e6}


async def raw(options: argparse.Namespace) -> dict[str, Any]:
    """Sign, POST on the key's own keep-alive connection, look the outcome up; one at a time per key."""

    async def work(key: int, jobs: range) -> None:
        signer, link = Key(key), await connect("127.0.0.1", options.sink, None, None, "sink", 1 << 20, 5.0)

        async def post(body: bytes) -> Any:
            return json.loads((await link.request(_HEAD % (len(body), body))).body)["result"]

        for job in jobs:
            hash = await post(signer.request(job))
            assert options.work == "send" or outcome(await post(look_up(job, hash)))

    return await each_key(options.jobs, work)


async def aiohttp(options: argparse.Namespace) -> dict[str, Any]:
    link = SessionLink(options.sink)

    async def work(key: int, jobs: range) -> None:
        signer = Key(key)
        for job in jobs:
            hash = await link.post(signer.request(job))
            assert options.work == "send" or outcome(await link.post(look_up(job, hash)))

    try:
        return await each_key(options.jobs, work)
    finally:
        await SessionLink.close()


async def lua(options: argparse.Namespace) -> dict[str, Any]:
    """The smallest script of ours, one call after the other on eight lanes."""
    ledger = RedisLedger(options.redis, prefix="limit", durability="none")
    keys = ("limit:members{x}", "limit:deadlines{x}", "limit:versions{x}")
    try:

        async def work(key: int, jobs: range) -> None:
            for _ in jobs:
                await ledger.runner.run("heartbeat", keys, ("worker", 1_000, "digest", "member"))

        return await each_key(options.jobs, work)
    finally:
        await ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("raw", "aiohttp", "lua"))
    parser.add_argument("--redis", required=True)
    parser.add_argument("--sink", type=int, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--work", choices=("whole", "send"), default="whole")
    options = parser.parse_args()
    what = {"raw": raw, "aiohttp": aiohttp, "lua": lua}[options.what]
    print(json.dumps(uvloop.run(what(options))))


if __name__ == "__main__":
    main()
