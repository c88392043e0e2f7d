"""One process of one release: says, as a JSON line, what it reads of a key and what a retry of it is answered."""

from __future__ import annotations

import asyncio
import json
import sys

from txmanager.core.ledger import Claim, Entry
from txmanager.core.models import new_intent
from txmanager.ledger.redis import RedisLedger


async def main(url: str, lane: str, key: str) -> None:
    ledger = RedisLedger(url, prefix="both", durability="none", timeout_s=5.0)
    intent = new_intent(key=key, pool="pool", kind="near.transfer", payload={"to": "bob"})
    record = await ledger.read(intent.id)
    assert record is not None
    assert record.outcome is not None
    [claimed] = await ledger.claim([Claim(intent.id, intent.fingerprint, "near:net:other:9", "another")])
    [late] = await ledger.append(lane, [Entry(intent, record.life, await ledger.now_ms())])
    told = {
        "status": str(record.status),
        "times": [record.created_at, record.updated_at],
        "hash": record.outcome.tx_hash,
        "attempts": [[a.nonce, a.hash] for a in record.attempts],
        "claim": [claimed.word, claimed.lane, claimed.life],
        "same": claimed.record == record,
        "append": late.word,
        "unretired": len(await ledger.unretired(lane, 9)),
    }
    print(json.dumps(told))
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
