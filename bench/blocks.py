"""What a window is worth: one lane on a devnet with 600 ms blocks, window 32 against window 1, and what was re-signed.

python -m bench.blocks --redis URL --window 32 --jobs 320 [--block-ms 600]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import structlog
import uvloop

from bench.ours import POOL, settled
from txmanager.chains.near import NearChain, NearNetwork
from txmanager.core.decide import Policy
from txmanager.core.models import LaneSpec, new_intent
from txmanager.ledger.redis import RedisLedger
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.accept.producer import Producer, Submitted
from txmanager.runtime.lane.worker import Service, Worker
from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.secret import Secret


async def drain(options: argparse.Namespace, told: dict[str, Any]) -> dict[str, Any]:
    account = told["accounts"][0]
    signer = Ed25519Signer.parse(Secret(account["private_key"]))
    lane = f"near:localnet:{account['account_id']}:{signer.public_key}"
    endpoint = Endpoint(told["nodes"][0], direct=True)
    chain = NearChain("localnet", [endpoint], {lane: signer}, settings=NearNetwork(86_400, 20_000))
    ledger = RedisLedger(options.redis, prefix=f"w{options.window}", durability="none")
    service = Service(LaneSpec(lane, POOL), chain, Policy(window=options.window))
    await ledger.register(service.spec)
    payload = {"contract_id": "counter.near", "method_name": "increment", "args": {"memo": "x" * 180}}
    intents = [
        new_intent(key=f"job-{n}", pool=POOL, kind="near.function_call", payload=payload) for n in range(options.jobs)
    ]
    for result in await Producer(ledger).submit_many(intents):
        assert isinstance(result, Submitted), result
    worker = Worker(ledger, {lane: service})
    began = time.perf_counter()
    running = asyncio.create_task(worker.run())
    while settled(worker) < options.jobs:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    seconds = time.perf_counter() - began
    records = [await ledger.read(intent.id) for intent in intents]
    first = [record.attempts[0].nonce for record in records if record is not None]
    resigned = sum(len(record.attempts) > 1 for record in records if record is not None)
    worker.stop()
    await running
    await chain.close()
    await ledger.close()
    violations = sum(later <= earlier for earlier, later in pairwise(first))
    return {"per_s": options.jobs / seconds, "resigned": resigned / options.jobs, "violations": violations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--window", type=int, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--block-ms", type=int, default=600)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    command = [sys.executable, "-m", "txmanager.devnet", "--port", "0", "--block-ms", str(options.block_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        print(json.dumps(uvloop.run(drain(options, json.loads(process.stdout.readline())))))
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
