"""Ledgers for tests: one `Stage` per backend, each with a key prefix of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis.asyncio

from tests.waiting import until
from txmanager.core.budgets import SLOTS
from txmanager.core.errors import Unconfirmed
from txmanager.core.ledger import SCHEMA, Claim
from txmanager.core.models import IntentId
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.keys import Keys
from txmanager.testing.ledger.stage import Stage

BACKENDS = ("memory", "redis7", "schema1", "valkey9", "cluster", "sentinel", "durable")
"""`schema1`: an installation that release 0.1.0 began and nobody has upgraded."""


def memory_stage() -> Stage:
    ledger = MemoryLedger()

    async def expire(what: str, id: IntentId | None = None, lane: str = "") -> None:
        if what == "schema":
            ledger.stores[lane].schema += 1
        elif what == "deadlines":
            store = ledger.stores[lane]
            store.held = {token: replace(held, till=1) for token, held in store.held.items()}
            store.turn_until = 1
        elif what == "charges":
            ledger.budgets.all_due()
        elif what == "backlog":
            store = ledger.stores[lane]
            store.gone = {life: replace(one, at=1) for life, one in store.gone.items()}
        elif what == "home":
            assert id is not None
            ledger.homes._homes.pop(id, None)
        else:
            assert id is not None
            ledger.stores[lane].tombstones.pop(id, None)

    return Stage(ledger, expire, lambda **_: ledger)


@asynccontextmanager
async def redis_stage(url: str, prefix: str, *, schema: int = SCHEMA, **options: Any) -> AsyncIterator[Stage]:
    """A stage on a running server; clients made by `again` are closed with it."""
    made: list[RedisLedger] = []

    def again(**more: Any) -> RedisLedger:
        made.append(RedisLedger(url, prefix=prefix, **{"durability": "none", **options, **more}))
        return made[-1]

    ledger = again()
    keys = Keys(prefix)
    if schema != SCHEMA:
        await ledger.runner.plain(keys.schema, ("SET", keys.schema, schema))

    async def expire(what: str, id: IntentId | None = None, lane: str = "") -> None:
        if what == "schema":
            await ledger.runner.plain(keys.lane(lane), ("HSET", keys.lane(lane), "schema", SCHEMA + 1))
            return
        if what == "deadlines":
            key = keys.reservation_deadlines(lane)
            [tokens] = await ledger.runner.plain(key, ("ZRANGE", key, 0, -1))
            pokes = (("ZADD", key, 1, token) for token in tokens)
            await ledger.runner.plain(key, *pokes, ("HSET", keys.lane(lane), "turn_until", "1"))
            return
        if what == "charges":
            for slot in range(SLOTS):
                agenda, _ = keys.budget_place(slot)
                [members] = await ledger.runner.plain(agenda, ("ZRANGE", agenda, 0, -1))
                for member in members:
                    look = ("ZADD", agenda, 1, member) if member.startswith(b"o ") else ("ZREM", agenda, member)
                    await ledger.runner.plain(agenda, look)
            return
        if what == "backlog":
            key = keys.backlog(lane)
            [members] = await ledger.runner.plain(key, ("ZRANGE", key, 0, -1))
            await ledger.runner.plain(key, *(("ZADD", key, 1, member) for member in members))
            return
        assert id is not None
        key = keys.home(id) if what == "home" else keys.record(lane, id)
        await ledger.runner.plain(key, ("DEL", key))

    try:
        yield Stage(ledger, expire, again)
    finally:
        for one in made:
            await one.close()


@asynccontextmanager
async def durable_stage(url: str, prefix: str, **options: Any) -> AsyncIterator[Stage]:
    """A stage on a running workerd, whose Worker knows `poke`."""
    made: list[DurableObjectLedger] = []

    def again(**more: Any) -> DurableObjectLedger:
        made.append(DurableObjectLedger(url, prefix=prefix, **{**options, **more}))
        return made[-1]

    ledger = again()

    async def expire(what: str, id: IntentId | None = None, lane: str = "") -> None:
        await poke(ledger, what, lane, id)

    try:
        yield Stage(ledger, expire, again)
    finally:
        for one in made:
            await one.close()


async def poke(ledger: DurableObjectLedger, what: str, lane: str = "", id: IntentId | None = None) -> None:
    """The moment something's time is over."""
    if what == "charges":
        for slot in range(SLOTS):
            await ledger._shared(f"budgets-{slot}", "poke")
        return
    if what == "home":
        assert id is not None
        await ledger._home(id, "poke", what=what)
        return
    args = {} if id is None else {"id": id.text}
    for one in ("deadlines", "turn") if what == "deadlines" else (what,):
        await ledger._lane(lane, "poke", what=one, **args)


_confirmed: set[str] = set()


async def until_replicas_confirm(url: str, *, again: bool = False) -> None:
    """A replica that just joined acknowledges nothing for up to a second; its primary counts it already."""
    if url in _confirmed and not again:
        return
    async with redis_stage(url, "warm-up", durability="replicas", timeout_s=5.0) as made:
        claims = [Claim(IntentId("p", str(n)), "v1:x", "near:net:a:1", "life") for n in range(32)]

        async def confirmed() -> bool:
            try:
                return bool(await made.ledger.claim(claims))
            except Unconfirmed:
                return False

        await until(confirmed, what="every primary has a replica that acknowledges")
    _confirmed.add(url)


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
    url = request.getfixturevalue("redis7" if backend == "schema1" else backend).url
    if backend == "durable":
        async with durable_stage(url, prefix) as made:
            yield made
        return
    if durability_of(backend) == "replicas":
        await until_replicas_confirm(url)
    schema = 1 if backend == "schema1" else SCHEMA
    async with redis_stage(url, prefix, schema=schema, durability=durability_of(backend), timeout_s=5.0) as made:
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
