"""States that only an accident makes, written into the ledger by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tests.api.stage import Stage
from tests.conftest import HasUrl
from txmanager.core.ledger import Claim, Entry, WriteAhead
from txmanager.core.models import Attempt, IntentId, LaneSpec, Purpose, new_intent
from txmanager.core.states import LaneState
from txmanager.ledger.redis import RedisLedger

T = TypeVar("T")


def by_hand(server: HasUrl, stage: Stage, work: Callable[[RedisLedger], Awaitable[T]]) -> T:
    async def run() -> T:
        ledger = RedisLedger(server.url, prefix=stage.prefix, durability="none")
        try:
            return await work(ledger)
        finally:
            await ledger.close()

    # a thread of its own: the browser's driver keeps this one's event loop
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(run())).result()


async def add_lanes(ledger: RedisLedger, count: int) -> None:
    for n in range(count):
        await ledger.register(LaneSpec(f"near:localnet:relayer{n:04}.near:ed25519.{n:04}", "main"))


async def queue(ledger: RedisLedger, lane: str, count: int, key: str, **metadata: Any) -> None:
    for start in range(0, count, 200):
        intents = [
            new_intent(
                key=f"{key}{n:05}", pool="main", kind="near.transfer", payload={"amount": "1"}, metadata=metadata
            )
            for n in range(start, min(start + 200, count))
        ]
        claims = [Claim(i.id, i.fingerprint, lane, f"life{i.id.key}"[:60]) for i in intents]
        born = await ledger.claim(claims)
        await ledger.append(lane, [Entry(i, c.life, c.born) for i, c in zip(intents, born, strict=True)])


async def hold(ledger: RedisLedger, key: str, reason: str, evidence: dict[str, Any]) -> str:
    """Hold a queued intent as the owner of its lane; the lane is free again afterwards. Answers the lane."""
    record = await ledger.read(IntentId("main", key))
    assert record is not None
    lease = await ledger.lease(record.lane, "by-hand", "by-hand", 60_000)
    assert lease.fence is not None, lease
    fence, lane = lease.fence, lease.lane
    assert lane is not None
    for one in await ledger.take(
        fence, 10_000
    ):  # write-ahead takes entries in their order: what other stories left goes
        if one.intent.id.key != key:
            await ledger.cancel(one.intent.id)
    [mine] = await ledger.take(fence, 1)
    cursor = lane.cursor if lane.cursor is not None else await ledger.baseline(fence, 100)
    attempt = Attempt(cursor, "HeldHash" + key[-8:], b"raw", Purpose.FIRST, record.created_at + 5)
    await ledger.record_attempts(fence, cursor, [WriteAhead(mine.intent.id, mine.life, mine.position, attempt)])
    assert await ledger.hold(fence, mine.intent.id, mine.life, reason, evidence)
    await ledger.release(fence)
    return record.lane


async def quarantine(ledger: RedisLedger, lane: str, reason: str, evidence: dict[str, Any]) -> None:
    await ledger.set_lane(lane, LaneState.QUARANTINED, reason, evidence)
