"""A worker and a producer of one release, which do what each line on standard input asks. Run by both releases."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import structlog

import txmanager
from txmanager.chains.near import NearChain, NearNetwork
from txmanager.core.decide import Policy
from txmanager.core.models import LaneSpec, intent_id, new_intent
from txmanager.ledger.redis import RedisLedger
from txmanager.rpc.endpoint import Endpoint
from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.secret import Secret

try:
    from txmanager.runtime.accept.producer import Producer
    from txmanager.runtime.lane.worker import Service, Timing, Worker
except ImportError:  # release 0.1.0
    from txmanager.runtime.producer import Producer  # type: ignore[import-not-found, no-redef]
    from txmanager.runtime.worker import Service, Timing, Worker  # type: ignore[import-not-found, no-redef]

POOL = "p"
NETWORK = NearNetwork(validity_blocks=86_400, epoch_blocks=20_000, head_fresh_s=0.2)
TIMING = Timing(lease_ms=1500, margin_ms=300, poll_s=0.05, grace_s=5.0)


async def main(url: str, node: str, name: str, accounts: list[dict[str, Any]], receiver: str) -> None:
    signers = {
        f"near:localnet:{a['account_id']}:{a['public_key']}": Ed25519Signer.parse(Secret(a["private_key"]))
        for a in accounts
    }
    endpoint = Endpoint(node, direct=True)
    chain = NearChain("localnet", [endpoint], signers, settings=NETWORK, policy=None, rng=random.Random(1))
    policy = Policy(window=16, include_within_ms=500)
    ledger = RedisLedger(url, prefix="work", durability="none", timeout_s=5.0)
    services = {lane: Service(LaneSpec(lane, POOL), chain, policy) for lane in signers}
    worker = Worker(ledger, services, name=name, timing=TIMING)
    task = asyncio.create_task(worker.run())
    producer = Producer(ledger)

    async def submit(first: int, last: int) -> list[str]:
        intents = [
            new_intent(
                key=f"k{n}", pool=POOL, kind="near.transfer", payload={"receiver_id": receiver, "amount": str(n)}
            )
            for n in range(first, last)
        ]
        answers = await producer.submit_many(intents)
        return [a.record.lane if hasattr(a, "record") else repr(a) for a in answers]

    async def statuses(first: int, last: int) -> list[str]:
        records = [await ledger.read(intent_id(f"k{n}", POOL)) for n in range(first, last)]
        return ["none" if r is None else str(r.status) for r in records]

    print(json.dumps(str(Path(txmanager.__file__))), flush=True)
    while True:
        verb, *numbers = json.loads(await asyncio.to_thread(sys.stdin.readline) or '["stop"]')
        if verb == "stop":
            break
        told = {"owned": worker.owned, "members": [m.name for m in await ledger.members()]}
        if verb == "submit":
            told["lanes"] = await submit(*numbers)
        elif verb == "statuses":
            told["statuses"] = await statuses(*numbers)
        print(json.dumps(told), flush=True)
    worker.stop()
    await task
    await chain.close()
    await ledger.close()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    told = json.loads(Path(sys.argv[4]).read_text())
    asyncio.run(main(*sys.argv[1:4], told["accounts"], told["receiver"]))
