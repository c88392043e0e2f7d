"""arq: eight workers of one job at a time in one process."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

from bench.peers.job import KEYS, POLL_S, Bench, options


async def main() -> None:
    bench = Bench(options())
    settings = RedisSettings.from_dsn(bench.options.redis)
    pool = await create_pool(settings)

    async def pay(context: dict[str, Any], job: int) -> str:
        return await bench.work(job)

    async def enqueue(job: int) -> Any:
        return await pool.enqueue_job("pay", job, _job_id=f"job-{job}", _queue_name=f"arq:{job % KEYS}")

    async def result(job: Any) -> Any:
        return await job.result(poll_delay=POLL_S)

    def start() -> list[asyncio.Task[None]]:
        workers = [
            Worker(
                [func(pay, name="pay")],
                queue_name=f"arq:{n}",
                redis_settings=settings,
                max_jobs=1,
                poll_delay=0.01,
                handle_signals=False,
            )
            for n in range(KEYS)
        ]
        return [asyncio.ensure_future(worker.async_run()) for worker in workers]

    await bench.run(enqueue, start, result)
    os._exit(0)


asyncio.run(main())
