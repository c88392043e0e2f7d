"""Parked lanes on Redis: what order, a crash between two steps, a full server and release 0.1.0 make of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

import pytest

from tests.ledger.redis_only import REDIS_PROMISES, changes, redis_of, redis_promise, under_full_memory
from txmanager.core.errors import Unavailable
from txmanager.core.ledger import SCHEMA
from txmanager.core.models import LaneSpec
from txmanager.core.states import LaneState
from txmanager.ledger.redis import RedisLedger, codec
from txmanager.testing.ledger.parking import ROUTE, idle, parked, view_of
from txmanager.testing.ledger.reservations import LANE, SEED, keyless, reserve, send
from txmanager.testing.ledger.stage import LONG_MS, POOL, Stage

__all__ = ["REDIS_PROMISES"]

_OLD = codec.dumps([POOL, 0, "active"])


@redis_promise
async def late_news_of_a_parked_lane_changes_nothing(stage: Stage) -> None:
    ledger = redis_of(stage)
    fence = await idle(stage)
    before = await ledger.runner.run("lane", ledger._lane_keys(LANE))
    await ledger.park(fence, 0)
    keys = ledger._keys.of_registry
    assert await ledger.runner.run("publish", keys, (LANE, codec.revision(before), _OLD, "")) == 0
    assert (await ledger.routes(), await ledger.parked()) == ([], [ROUTE])
    before = await ledger.runner.run("lane", ledger._lane_keys(LANE))
    await keyless(stage)
    assert await ledger.runner.run("publish", keys, (LANE, codec.revision(before), _OLD, "parked")) == 0
    assert (await ledger.routes(), await ledger.parked()) == ([ROUTE], [])


@redis_promise
async def readers_of_the_registry_read_who_was_parked_alone(stage: Stage) -> None:
    reader = stage.again()
    assert isinstance(reader, RedisLedger)
    fence = await idle(stage)
    assert (await reader.routes(), await reader.parked()) == ([ROUTE], [])
    with patch.object(reader, "_read_routes", side_effect=AssertionError("read all of it")):
        await stage.ledger.park(fence, 0)
        assert (await reader.routes(), await reader.parked()) == ([], [ROUTE])
        same = await reader.parked()
        assert await reader.parked() is same
        await keyless(stage)
        assert (await reader.routes(), await reader.parked()) == ([ROUTE], [])


@redis_promise
async def lane_that_left_the_registry_is_listened_to_no_more(stage: Stage) -> None:
    ledger, other = redis_of(stage), await stage.lane()
    fence = await idle(stage)
    await ledger.routes()
    await ledger.wait_wake([LANE, other], 0.01)
    await ledger.wait_news([LANE], 0.01)
    await ledger.park(fence, 0)
    await ledger.routes()
    assert ledger._subscriber._wanted == {ledger._keys.wake(other)}


@redis_promise
async def listing_lanes_takes_away_the_route_to_a_parked_lane(stage: Stage) -> None:
    """Whoever parked it died before the registry knew."""
    ledger = redis_of(stage)
    fence = await idle(stage)
    with patch.object(ledger, "_publish"):
        await ledger.park(fence, 0)
    assert (await ledger.routes(), await ledger.parked()) == ([ROUTE], [])
    assert await ledger.lanes() == []
    assert (await ledger.routes(), await ledger.parked()) == ([], [ROUTE])
    with patch.object(ledger, "_publish"):
        await keyless(stage)
    await ledger.register(LaneSpec(LANE, POOL, weight=0, keyless=True))
    assert (await ledger.routes(), await ledger.parked()) == ([ROUTE], [])


@redis_promise
async def upgrade_passes_over_a_lane_that_was_parked_meanwhile(stage: Stage) -> None:
    """Or by somebody who died before the registry knew: it has no queue. It is raised when it comes back."""
    ledger, other = redis_of(stage), await stage.lane()
    fence = await idle(stage)
    with patch.object(ledger, "_publish"):
        await ledger.park(fence, 0)
    before = (await view_of(stage, LANE)).schema
    assert await ledger.upgrade() == ([other] if before < SCHEMA else [])
    assert (await view_of(stage, LANE)).schema == before
    await keyless(stage)
    assert (await view_of(stage, LANE)).schema == SCHEMA


@redis_promise
async def parked_lane_is_never_let_go(stage: Stage) -> None:
    ledger = redis_of(stage)
    assert await ledger.admit_lane("bob", LANE, 1)
    await parked(stage)
    made = ledger._keys.made("bob")
    await ledger.runner.plain(made, ("ZADD", made, 1, LANE))
    assert not await ledger.admit_lane("bob", "evm:1:0xbb", 1)


@redis_promise
async def replay_of_parking_writes(stage: Stage) -> None:
    ledger = redis_of(stage)
    fence = await parked(stage)
    with changes(ledger) as changed, patch.object(ledger, "_publish"):
        assert await ledger.park(fence, 0) == 0
    assert sum(changed) > 0


@redis_promise
async def release_that_knows_no_parking_registers_the_lane_as_a_new_one(stage: Stage) -> None:
    """Its scripts: `register` begins a lane that has no state, `publish` knows of no parked ones."""
    ledger = redis_of(stage)
    await parked(stage)
    key, queue = ledger._keys.lane(LANE), ledger._keys.queue(LANE)
    fresh = ("state", "active", "epoch", 0, "owner", "", "token", "", "until", 0, "upto", "0-0", "last", "0-0")
    await ledger.runner.plain(
        key,
        ("HSET", key, *fresh, "asks", 0, "schema", 1),
        ("XGROUP", "CREATE", queue, "lane", 0, "MKSTREAM"),
        ("HINCRBY", key, "rev", 1),
    )
    registry = ledger._keys.registry
    await ledger.runner.plain(registry, ("HSET", registry, LANE, b"99 " + _OLD))
    assert await ledger.routes(fresh=True) == [ROUTE]
    assert not (await view_of(stage, LANE)).parked
    assert await reserve(stage, LANE, "t1") == SEED
    assert await reserve(stage, LANE, "t2") == SEED + 1, "where it stood"
    _, answer = await send(stage, LANE, "t2", SEED + 1, "0xaa")
    assert answer.word == "appended"
    back = await ledger.register(LaneSpec(LANE, POOL, weight=0, keyless=True))
    assert (back.depth, back.parked) == (1, False)


@under_full_memory
async def lanes_be_parked(stage: Stage) -> Callable[[], Awaitable[object]]:
    fence = await idle(stage)

    async def act() -> None:
        assert await stage.ledger.park(fence, 0) == 0
        assert await stage.ledger.routes() == []
        await keyless(stage)
        assert (await stage.ledger.lease(LANE, "w2", "later", LONG_MS)).word == "leased"

    return act


@redis_promise
async def lane_that_was_stopped_while_it_was_parked_keeps_no_trace_of_it(stage: Stage) -> None:
    ledger = redis_of(stage)
    await parked(stage)
    await ledger.set_lane(LANE, LaneState.PAUSED, "look")
    key = ledger._keys.lane(LANE)
    assert await ledger.runner.plain(key, ("HEXISTS", key, "parked")) == [0]


@redis_promise
async def lane_that_is_followed_from_now_on_is_told_once_it_is_listened_to(stage: Stage) -> None:
    """Nobody would hear of what happens before: whoever follows it reads it once more."""
    ledger, lane = redis_of(stage), await stage.lane()
    assert await ledger.wait_news([lane], 5.0) == {lane}, "nobody listened to it before"
    known = await stage.lane("near:net:quiet:ed25519.b")
    for channel in (ledger._keys.wake(known), ledger._keys.final(known)):
        await ledger._subscriber._confirmed(channel, 5.0)
    lanes = [lane, known]
    assert known in await ledger.wait_news(lanes, 5.0), "it was listened to for another reason"
    while await ledger.wait_news(lanes, 0.2):
        pass
    connection = ledger._subscriber._connection
    assert connection is not None
    assert connection.transport is not None
    connection.transport.abort()
    assert await ledger.wait_news(lanes, 5.0) == set(lanes), "the connection is lost"
    again: set[str] = set()
    while again != set(lanes):
        news = await ledger.wait_news(lanes, 5.0)
        assert news, "what happened before there was a new one"
        again |= news


@redis_promise
async def lane_that_is_there_again_is_listed_whatever_is_left_of_a_deleted_one(stage: Stage) -> None:
    """Whoever deleted it died before the registry knew."""
    ledger = redis_of(stage)
    fence = await idle(stage)
    for _ in range(3):
        await ledger.set_lane(LANE, LaneState.PAUSED)
        await ledger.set_lane(LANE, LaneState.ACTIVE)
    await ledger.park(fence, 0)
    runner = ledger.runner
    run = runner.run

    async def dies(name: str, *args: Any, **more: Any) -> Any:
        if name == "unpublish":
            raise Unavailable("died")
        return await run(name, *args, **more)

    with patch.object(runner, "run", dies), pytest.raises(Unavailable):
        await ledger.forget_lane(LANE)
    await keyless(stage)
    assert (await ledger.routes(), await ledger.parked()) == ([ROUTE], [])
