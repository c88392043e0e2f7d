"""taskiq with taskiq-redis: eight list queues, one task of each at a time, results in Redis."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from taskiq.api import run_receiver_task
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

from bench.peers.job import KEYS, POLL_S, Bench, options


async def main() -> None:
    bench = Bench(options())
    url = bench.options.redis
    brokers = [
        ListQueueBroker(url, queue_name=f"taskiq-{n}").with_result_backend(RedisAsyncResultBackend(url))
        for n in range(KEYS)
    ]

    async def pay(job: int) -> str:
        return await bench.work(job)

    tasks = [broker.register_task(pay, task_name="pay") for broker in brokers]
    for broker in brokers:
        broker.is_worker_process = True
        await broker.startup()

    async def enqueue(job: int) -> Any:
        return await tasks[job % KEYS].kiq(job)

    async def result(task: Any) -> Any:
        return (await task.wait_result(check_interval=POLL_S, timeout=60)).return_value

    def start() -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(run_receiver_task(broker, max_async_tasks=1)) for broker in brokers]

    await bench.run(enqueue, start, result)
    os._exit(0)


asyncio.run(main())
