"""rq: a SimpleWorker process per queue, which ends when its queue is empty."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

from redis import Redis
from rq import Queue, SimpleWorker

from bench.peers.job import KEYS, BlockingLink, Key, look_up, options, outcome

_state: dict[str, object] = {}


def pay(job: int) -> str:
    if not _state:
        _state["link"], _state["key"] = BlockingLink(int(os.environ["BENCH_SINK"])), Key(job % KEYS)
    link, key = _state["link"], _state["key"]
    assert isinstance(link, BlockingLink)
    assert isinstance(key, Key)
    hash = str(link.post(key.request(job)))
    return hash if os.environ["BENCH_WORK"] == "send" else outcome(link.post(look_up(job, hash)))


def main() -> None:
    told = options()
    client = Redis.from_url(told.redis)
    if told.mode == "work":
        SimpleWorker([Queue(told.queue, connection=client)], connection=client).work(burst=True, logging_level="ERROR")
        return
    queues = [Queue(f"rq-{n}", connection=client) for n in range(KEYS)]
    for n, queue in enumerate(queues):
        jobs = [
            Queue.prepare_data("bench.peers.rq_peer.pay", (job,), result_ttl=3_600) for job in range(n, told.jobs, KEYS)
        ]
        queue.enqueue_many(jobs)
    os.environ.update(BENCH_SINK=str(told.sink), BENCH_WORK=told.work)
    began = time.perf_counter()
    command = [sys.executable, "-m", "bench.peers.rq_peer", "work", *sys.argv[2:], "--queue"]
    workers = [subprocess.Popen([*command, queue.name], stderr=subprocess.DEVNULL) for queue in queues]
    for worker in workers:
        worker.wait()
    seconds = time.perf_counter() - began
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_us = (spent.ru_utime + spent.ru_stime) / told.jobs * 1e6
    print(json.dumps({"seconds": seconds, "per_s": told.jobs / seconds, "cpu_us": cpu_us}))


if __name__ == "__main__":
    main()
