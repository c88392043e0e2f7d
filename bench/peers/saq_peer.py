"""saq: eight queues with a worker of concurrency 1 each, in one process."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from saq import Queue, Worker

from bench.peers.job import KEYS, Bench, options


async def main() -> None:
    bench = Bench(options())
    queues = [Queue.from_url(bench.options.redis, name=f"saq-{n}") for n in range(KEYS)]
    for queue in queues:
        await queue.connect()

    async def pay(context: Any, *, job: int) -> str:
        return await bench.work(job)

    async def enqueue(job: int) -> Any:
        return await queues[job % KEYS].enqueue("pay", key=f"job-{job}", job=job, retries=1)

    async def result(job: Any) -> Any:
        await job.refresh(until_complete=60)
        return job.result

    def start() -> list[asyncio.Task[None]]:
        workers = [Worker(queue, functions=[("pay", pay)], concurrency=1) for queue in queues]
        for worker in workers:
            worker.SIGNALS = []
        return [asyncio.ensure_future(worker.start()) for worker in workers]

    await bench.run(enqueue, start, result)
    os._exit(0)


asyncio.run(main())
