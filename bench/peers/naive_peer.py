"""The design that relayers start with: a list per key, `SET NX` as the key's lock with 50 ms between tries, the nonce
by INCR. Two workers per key, as two server processes would have."""

from __future__ import annotations

import asyncio
import os

import redis.asyncio as aioredis

from bench.peers.job import KEYS, POLL_S, Bench, options


async def main() -> None:
    bench = Bench(options())
    client = aioredis.from_url(bench.options.redis, max_connections=500)

    async def enqueue(job: int) -> int:
        await client.lpush(f"naive:{job % KEYS}", job)
        return job

    async def result(job: int) -> object:
        while not (told := await client.get(f"result:{job}")):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        return told

    async def work(key: int) -> None:
        link = bench.link()
        while True:
            if not await client.set(f"lock:{key}", "1", nx=True, px=10_000):
                await asyncio.sleep(0.05)
                continue
            try:
                taken = await client.rpop(f"naive:{key}")
                if taken is None:
                    await asyncio.sleep(0.05)
                    continue
                nonce = 1_000 + int(await client.incr(f"nonce:{key}"))
                told = await bench.pay(link, bench.keys[key].request_at(int(taken), nonce), int(taken))
                await client.set(f"result:{int(taken)}", told, ex=3_600)
                bench.count(int(taken))
            finally:
                await client.delete(f"lock:{key}")

    def start() -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(work(key)) for key in range(KEYS) for _ in range(2)]

    await bench.run(enqueue, start, result)
    os._exit(0)


asyncio.run(main())
