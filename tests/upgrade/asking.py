"""One process of one release: accepts keys and says, as JSON lines, which life each got. Run by both releases."""

from __future__ import annotations

import asyncio
import json
import sys

import txmanager
from txmanager.core.ledger import Member
from txmanager.core.models import LaneSpec, new_intent
from txmanager.ledger.redis import RedisLedger

try:
    from txmanager.runtime.accept.producer import Producer
except ImportError:  # release 0.1.0
    from txmanager.runtime.producer import Producer  # type: ignore[import-not-found, no-redef]


async def main(url: str, name: str, lane: str, keys: list[int]) -> None:
    ledger = RedisLedger(url, prefix="both", durability="none", timeout_s=5.0)
    await ledger.register(LaneSpec(lane, "pool"))
    await ledger.heartbeat(Member(name, frozenset({lane})), 60_000)
    producer = Producer(ledger)

    async def ask(n: int) -> str:
        intent = new_intent(key=f"k{n}", pool="pool", kind="near.transfer", payload={"to": "bob", "n": n})
        got = await producer.submit(intent)
        told = {"key": f"k{n}", "life": got.record.life, "lane": got.record.lane, "replayed": got.replayed}
        return json.dumps(told)

    async def submit(n: int) -> None:
        print(await ask(n), flush=True)

    first = await ask(keys[0])  # however slow the machine is, each release is the first with some key
    print(json.dumps({"source": txmanager.__file__}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)  # both begin together
    print(first, flush=True)
    for start in range(1, len(keys), 8):
        await asyncio.gather(*(submit(n) for n in keys[start : start + 8]))
    routes = sorted([route.lane, str(route.state)] for route in await ledger.routes())
    members = sorted(member.name for member in await ledger.members())
    print(json.dumps({"routes": routes, "members": members}), flush=True)
    await ledger.close()


if __name__ == "__main__":
    first, last, step = (int(word) for word in sys.argv[4:])
    asyncio.run(main(*sys.argv[1:4], list(range(first, last, step))))
