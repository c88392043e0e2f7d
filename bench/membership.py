"""What many workers with many lanes cost while nothing changes: `python -m bench.membership [--lanes 10000]
[--workers 100] [--ticks 5]`.

Each worker's part of a tick runs for real against one Redis: a heartbeat, a look at the members, and its share of the
lanes. Counted are bytes on the wire, the owners chosen, and processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import uvloop

from bench.processes import Redis, redis_server
from txmanager.core.ledger import Member
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.lane.share import Share

_TTL_MS = 600_000


async def tick(ledger: RedisLedger, member: Member, share: Share) -> int:
    await ledger.heartbeat(member, _TTL_MS)
    return len(await share.of(member.lanes, await ledger.members()))


def counted(redis: Redis) -> dict[str, float]:
    stats = redis.client.info("stats")
    return {
        "read": float(stats["total_net_output_bytes"]),
        "written": float(stats["total_net_input_bytes"]),
        "redis_s": redis.cpu_s(),
        "worker_s": time.process_time(),
    }


async def measure(redis: Redis, lanes: int, workers: int, ticks: int, prefix: str = "many") -> dict[str, Any]:
    names = [f"near:mainnet:relayer{n:06d}.example.near:ed25519.{n:044d}" for n in range(lanes)]
    ledgers = [RedisLedger(redis.url, prefix=prefix, timeout_s=30.0) for _ in range(workers)]
    members = [Member(f"worker-{n:04d}", frozenset(names)) for n in range(workers)]
    shares = [Share(member.name) for member in members]
    for ledger, member in zip(ledgers, members, strict=True):
        await ledger.heartbeat(member, _TTL_MS)
    told: dict[str, Any] = {"lanes": lanes, "workers": workers}
    for name, rounds in (("first", 1), ("quiet", ticks)):
        before, chosen = counted(redis), sum(share.chosen for share in shares)
        owned = 0
        for _ in range(rounds):
            owned = sum([await tick(*one) for one in zip(ledgers, members, shares, strict=True)])
        assert owned == lanes, "each lane has one owner"
        per = rounds * workers
        found = {key: (value - before[key]) / per for key, value in counted(redis).items()}
        told[name] = {
            "bytes read": round(found["read"]),
            "bytes written": round(found["written"]),
            "owners chosen": (sum(share.chosen for share in shares) - chosen) / per,
            "worker ms": round(found["worker_s"] * 1e3, 2),
            "redis ms": round(found["redis_s"] * 1e3, 2),
        }
    for ledger in ledgers:
        await ledger.close()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--ticks", type=int, default=5)
    told = parser.parse_args()
    with redis_server() as redis:
        print(json.dumps(uvloop.run(measure(redis, told.lanes, told.workers, told.ticks)), indent=2))


if __name__ == "__main__":
    sys.exit(main())
