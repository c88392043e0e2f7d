"""Ledgers for tests: one `Stage` per backend, each with a key prefix of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio

from tests.ledger.stage import Stage
from txmanager.core.models import IntentId
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.keys import Keys

BACKENDS = ("memory", "redis7", "valkey9", "cluster", "sentinel")


def memory_stage() -> Stage:
    ledger = MemoryLedger()

    async def expire(what: str, id: IntentId, lane: str = "") -> None:
        if what == "home":
            ledger.homes._homes.pop(id, None)
        else:
            ledger.stores[lane].tombstones.pop(id, None)

    return Stage(ledger, expire, lambda **_: ledger)


@asynccontextmanager
async def redis_stage(url: str, prefix: str, **options: Any) -> AsyncIterator[Stage]:
    """A stage on a running server; clients made by `again` are closed with it."""
    made: list[RedisLedger] = []

    def again(**more: Any) -> RedisLedger:
        made.append(RedisLedger(url, prefix=prefix, **{"durability": "none", **options, **more}))
        return made[-1]

    ledger = again()

    async def expire(what: str, id: IntentId, lane: str = "") -> None:
        keys = Keys(prefix)
        key = keys.home(id) if what == "home" else keys.record(lane, id)
        await ledger.runner.plain(key, ("DEL", key))

    try:
        yield Stage(ledger, expire, again)
    finally:
        for one in made:
            await one.close()


def durability_of(backend: str) -> str:
    """Each topology in the mode it is meant to be run in."""
    return "replicas" if backend in ("cluster", "sentinel") else "fsync"


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def stage(backend: str, request: pytest.FixtureRequest, prefix: str) -> AsyncIterator[Stage]:
    if backend == "memory":
        yield memory_stage()
        return
    url = request.getfixturevalue(backend).url
    async with redis_stage(url, prefix, durability=durability_of(backend), timeout_s=5.0) as made:
        yield made


@pytest.fixture
async def redis_one(redis7: Any, prefix: str) -> AsyncIterator[Stage]:
    """The single server only, for what depends on Redis and not on the topology."""
    async with redis_stage(redis7.url, prefix) as made:
        yield made


@pytest.fixture
async def raw(redis7: Any) -> AsyncIterator[redis.asyncio.Redis]:
    """What an operator sees with redis-cli."""
    client = redis.asyncio.Redis.from_url(redis7.url, decode_responses=True)
    yield client
    await client.aclose()
