"""One of several processes that submit the same keys at once; prints what it was told.

`python -m tests.ledger.submitters URL PREFIX CALLERS KEYS`
"""

from __future__ import annotations

import asyncio
import json
import sys

from txmanager.core.models import new_intent
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.accept.producer import Producer
from txmanager.testing.ledger.stage import POOL


async def main(url: str, prefix: str, callers: int, keys: int) -> None:
    ledger = RedisLedger(url, prefix=prefix, durability="none", timeout_s=10.0)
    producer = Producer(ledger)
    await ledger.routes()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

    async def submit(n: int) -> list[object]:
        intent = new_intent(key=f"key{n % keys}", pool=POOL, kind="near.transfer", payload={"n": n % keys})
        record = (await producer.submit(intent)).record
        return [record.id.key, record.lane, record.life, record.position, record.created_at]

    print(json.dumps(await asyncio.gather(*(submit(n) for n in range(callers)))))
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
