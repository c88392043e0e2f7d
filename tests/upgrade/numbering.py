"""One process of one release: takes a number of a lane as its nonce service does, and says what it got as JSON."""

from __future__ import annotations

import asyncio
import json
import sys

from txmanager.core.errors import NotFound
from txmanager.core.models import LaneSpec
from txmanager.ledger.redis import RedisLedger


async def main(url: str, lane: str) -> None:
    ledger = RedisLedger(url, prefix="both", durability="none", timeout_s=5.0)
    told = {"routes": [route.lane for route in await ledger.routes()], "lane": await ledger.lane(lane) is not None}
    try:
        answer = await ledger.reserve(lane, "old", 60_000, None, 7)
    except NotFound:
        await ledger.register(LaneSpec(lane, "pool", weight=0, keyless=True))
        answer = await ledger.reserve(lane, "old", 60_000, None, 7)
    lease = await ledger.lease(lane, "old", "token", 1)
    print(json.dumps({**told, "nonce": answer.nonce, "lease": lease.word}))
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
