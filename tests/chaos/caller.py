"""A producer process: `python -m tests.chaos.caller '{...}'` executes intents at once and prints every outcome.

One JSON line per key: what this caller was told. It holds no private key and knows no lane.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from typing import Any

import uvloop

from txmanager.core.errors import TxManagerError
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.manager import TxManager


async def main(told: dict[str, Any]) -> None:
    ledger = RedisLedger(told["redis"], prefix=told["prefix"])
    async with TxManager(ledger) as manager:

        async def one(intent: dict[str, Any]) -> None:
            for _ in range(60):
                try:
                    outcome = await manager.execute(told["pool"], timeout_s=60, **intent)
                except TxManagerError as error:
                    problem = f"{error.code}: {error}"
                    await asyncio.sleep(0.2)  # the same key again: that is the whole recovery of a caller
                else:
                    answer = {"key": intent["idempotency_key"], "outcome": dataclasses.asdict(outcome)}
                    print(json.dumps(answer), flush=True)
                    return
            print(json.dumps({"key": intent["idempotency_key"], "gave_up": problem}), flush=True)

        await asyncio.gather(*(one(intent) for intent in told["intents"]))
    await ledger.close()


if __name__ == "__main__":
    uvloop.run(main(json.loads(sys.stdin.read())))
