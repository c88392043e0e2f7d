"""What depends on Redis itself: changed servers, full memory, what a repeat writes."""

from __future__ import annotations

from tests.mempool.stage import Stage
from txmanager.core.admission import Count, End, State
from txmanager.core.errors import MemoryFull
from txmanager.ledger.redis.mempool import RedisMempool


def _redis(stage: Stage) -> RedisMempool:
    assert isinstance(stage.mempool, RedisMempool)
    return stage.mempool


async def server_that_changed_leaves_everything_in_doubt(stage: Stage) -> None:
    """A failover may have lost a grant: what waits may have been sent, and nothing goes for a while."""
    await stage.open(quiet_ms=2_000)
    await stage.advance(2_000, "me")
    await stage.granted("b", 0)
    await stage.waiting("a", 0)
    await _change_server(stage)
    assert await stage.take() == []
    await stage.advance(2_000, "me")
    again = await stage.take(2)
    assert [grant.again for grant in again] == [True, True]
    new = await stage.granted("c", 0)
    assert not new.again


async def _change_server(stage: Stage) -> None:
    mempool = _redis(stage)
    await mempool.runner.plain(mempool.keys[0], ("HSET", mempool.keys[0], "replid", "another"))


async def server_that_changed_ends_every_hold(stage: Stage) -> None:
    """Whoever got a grant from the old server stops; its next heartbeat says so."""
    mempool = await stage.open()
    await stage.granted("a", 0)
    assert not (await mempool.heartbeat("me")).lapsed
    await _change_server(stage)
    assert (await mempool.heartbeat("me")).lapsed
    assert not (await mempool.heartbeat("me")).lapsed


async def bytes_in_doubt_are_not_replaced_on_a_strict_node(stage: Stage) -> None:
    """The grant of what waits may be forgotten, and its holder may be sending it."""
    await stage.open(strict=True)
    await stage.waiting("a", 0)
    await _change_server(stage)
    assert await stage.word("a", 0, 20) == "low"
    await stage.waiting("b", 0)
    assert await stage.word("b", 0, 20) == "admitted"


async def done_notices_a_server_that_changed(stage: Stage) -> None:
    await stage.open(quiet_ms=2_000)
    await stage.advance(2_000, "me")
    grant = await stage.granted("a", 0)
    await stage.waiting("a", 1)
    await _change_server(stage)
    assert (await stage.done(grant)).grant is None


async def repeated_admit_writes(stage: Stage) -> None:
    """Else WAIT would vouch for nothing."""
    await stage.open()
    mempool = _redis(stage)
    mempool._token = lambda: "same"
    offer = stage.offer("a", 0)
    counts = {offer.sender: Count(0, "0xb", 1)}
    touched = []
    for _ in range(2):
        await mempool.admit([offer], counts)
        [count] = await mempool.runner.plain(mempool.keys[0], ("HGET", mempool.keys[0], "touch"))
        touched.append(int(count))
    assert touched == [1, 2]


async def oldest_ends_are_forgotten_when_there_are_too_many(stage: Stage) -> None:
    await stage.open()
    mempool = _redis(stage)
    mempool._limits = mempool._limits.replace('"ended_limit": 20000', '"ended_limit": 2')
    offers = []
    for nonce in range(3):
        offers.append(await stage.waiting("a", nonce))
        await stage.advance(1)
    for offer in offers:
        await mempool.drop(hash=offer.hash)
        await stage.advance(1)
    assert [await stage.state(o) for o in offers] == [None, "dropped", "dropped"]


async def dead_instances_leave_nothing(stage: Stage) -> None:
    await stage.open()
    await stage.advance(600_000)
    mempool = _redis(stage)
    await mempool.expire()
    [left] = await mempool.runner.plain(mempool.keys[0], ("HLEN", mempool.keys[12]))
    assert left == 0


async def full_server_still_sends_learns_and_ends(stage: Stage) -> None:
    await stage.open(idle_ms=1_000)
    mempool = _redis(stage)
    grants = [await stage.granted(name, 0) for name in "abcd"]
    await stage.waiting("e", 0)
    await stage.done(grants[3], more=False)
    gap = await stage.waiting("g", 1)
    await stage.advance(1_500, "me")
    [info] = await mempool.runner.plain(mempool.keys[0], ("CONFIG", "GET", "maxmemory"))
    before = info[1]
    await mempool.runner.plain(mempool.keys[0], ("CONFIG", "SET", "maxmemory", "1"))
    try:
        try:
            await stage.admit("z", 0)
        except MemoryFull:
            pass
        else:
            raise AssertionError("the server is not full")
        assert not (await mempool.heartbeat("me")).lapsed
        assert (await stage.done(grants[0], more=False)).word == "done"
        assert len(await stage.take()) == 1
        assert await stage.observe("b", 1) == "raised"
        assert await mempool.end([End(grants[1].hash, "final")]) == [grants[1].hash]
        assert await mempool.reopen([grants[3].hash]) == [grants[3].hash]
        assert gap.hash in (await mempool.expire()).ended
        unknown = "0x" + "1" * 64
        assert (await mempool.expire()).ended == ()
        assert await stage.observe("a", 0) == "same"
        assert await mempool.reopen([unknown]) == []
        assert await mempool.end([End(unknown, "final")]) == []
        assert (await mempool.take("me", 0)).grants == ()
    finally:
        await mempool.runner.plain(mempool.keys[0], ("CONFIG", "SET", "maxmemory", before))
    assert await stage.state(grants[3]) == State.UNSURE


REDIS_PROMISES = {
    made.__name__: made
    for made in (
        server_that_changed_leaves_everything_in_doubt,
        server_that_changed_ends_every_hold,
        bytes_in_doubt_are_not_replaced_on_a_strict_node,
        done_notices_a_server_that_changed,
        repeated_admit_writes,
        oldest_ends_are_forgotten_when_there_are_too_many,
        dead_instances_leave_nothing,
        full_server_still_sends_learns_and_ends,
    )
}
