"""streaq: eight workers of concurrency 1 on queues of their own, in one process."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from streaq import Worker

from bench.peers.job import KEYS, Bench, options


def _workers(url: str) -> list[Worker]:
    return [Worker(redis_url=url, queue_name=f"streaq-{n}", concurrency=1) for n in range(KEYS)]


async def main() -> None:
    bench = Bench(options())
    workers, doors = _workers(bench.options.redis), _workers(bench.options.redis)

    async def pay(job: int) -> str:
        return await bench.work(job)

    for worker in workers:
        worker.task(name="pay")(pay)
    tasks = [door.task(name="pay")(pay) for door in doors]
    for door in doors:
        await door.__aenter__()

    async def enqueue(job: int) -> Any:
        return await tasks[job % KEYS].enqueue(job)

    async def result(task: Any) -> Any:
        return (await task.result(60)).result

    def start() -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(worker.run_async()) for worker in workers]

    await bench.run(enqueue, start, result)
    os._exit(0)


asyncio.run(main())
