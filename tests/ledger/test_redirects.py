"""Slots and primaries that move: redirects are followed, half-moved slots retried, nobody is left deaf."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
import redis.crc

from tests.ledger.conftest import redis_stage, until_replicas_confirm
from tests.ledger.redis_only import redis_of
from tests.servers import HOST, Cluster
from tests.servers.proxy import FaultProxy
from tests.waiting import until
from txmanager.core.errors import Unavailable
from txmanager.core.ledger import Claim
from txmanager.core.models import IntentId, LaneSpec
from txmanager.ledger.redis.links import ClusterLink, Dial, Node, key_slot
from txmanager.ledger.redis.wire import Address
from txmanager.testing.ledger.stage import POOL, Stage

LANE = "near:net:a:1"


@pytest.fixture(scope="module")
def moving() -> Any:
    """A cluster whose slots these tests move about."""
    with Cluster() as running:
        yield running


def move_slot(cluster: Cluster, slot: int, *, finish: bool = True) -> None:
    """Hand one slot to the next primary, keys and all, as redis-cli does."""
    source = cluster.primaries_by_slot(slot)
    target = next(node for node in cluster.nodes[:3] if node is not source)
    with source.client() as old, target.client() as new:
        names = {n: c.execute_command("CLUSTER", "MYID") for n, c in (("old", old), ("new", new))}
        new.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", names["old"])
        old.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", names["new"])
        if not finish:
            return
        for key in old.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
            old.execute_command("MIGRATE", HOST, target.port, key, 0, 5000)
        for node in cluster.nodes[:3]:
            with node.client() as client:
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", names["new"])


def stop_moving(cluster: Cluster, slot: int) -> None:
    for node in cluster.nodes[:3]:
        with node.client() as client:
            client.execute_command("CLUSTER", "SETSLOT", slot, "STABLE")


def test_slot_of_a_key_is_the_one_the_cluster_computes(moving: Cluster):
    keys = ["plain", "a{tag}b", "a{}b", "{", "}{", "x{a}{b}", "txm:{near:net:a:1}:queue", "ü{ö}"]
    with moving.nodes[0].client() as client:
        for key in keys:
            assert key_slot(key.encode()) == client.execute_command("CLUSTER", "KEYSLOT", key)
            assert key_slot(key.encode()) == redis.crc.key_slot(key.encode())


async def test_moved_slot_is_followed_with_all_it_holds(moving: Cluster, prefix: str):
    async with redis_stage(moving.url, prefix) as stage:
        lane = await stage.lane(LANE)
        fence = await stage.own(lane)
        batch = await stage.inflight(fence, 3)
        slot = key_slot(redis_of(stage)._keys.lane(LANE).encode())
        await asyncio.to_thread(move_slot, moving, slot)
        await stage.queued(lane, 2)
        assert [a.word for a in await stage.ledger.settle(fence, [stage.done(w) for w in batch])] == ["settled"] * 3
        assert len(await stage.ledger.take(fence, 9)) == 2


async def test_slot_on_its_way_answers_or_says_retry_but_never_wrong(moving: Cluster, prefix: str):
    async with redis_stage(moving.url, prefix, timeout_s=0.5) as stage:
        lane = await stage.lane(LANE)
        [entry] = await stage.queued(lane)
        keys = redis_of(stage)._keys
        slot = key_slot(keys.home(entry.intent.id).encode())
        await asyncio.to_thread(move_slot, moving, slot, finish=False)
        try:
            # what is still at its old place is found there; what is at neither is asked for at the new one
            assert (await stage.read(entry)).life == entry.life
            absent = next(id for n in range(10**6) if (id := IntentId(POOL, f"absent{n}")).home == entry.intent.id.home)
            assert await stage.ledger.read(absent) is None
            with pytest.raises(Unavailable, match="changing hands"):
                await stage.ledger.claim([Claim(absent, "v1:x", lane, "life")])
        finally:
            await asyncio.to_thread(stop_moving, moving, slot)
        [claimed] = await stage.ledger.claim([Claim(absent, "v1:x", lane, "life")])
        assert claimed.word == "claimed"


async def test_map_thrown_away_while_a_redirect_is_followed_is_read_again(moving: Cluster):
    """One caller's lost connection must not leave another with a map of one slot."""
    host, port = moving.nodes[0].address.split(":")
    link = ClusterLink([Address(host, int(port))], Dial(2.0))
    try:
        slot = key_slot(b"{somewhere}")
        wrong = next(node for node in moving.nodes[:3] if node is not moving.primaries_by_slot(slot))
        await link.primaries()
        for _ in range(2):
            link._slots[slot] = (HOST, wrong.port)
            call = asyncio.create_task(link.call("{somewhere}", [("GET", "{somewhere}")]))
            await asyncio.sleep(0)  # it has chosen its node and waits for the answer
            link._slots = []
            assert await call == [None]
        assert await link.call("{elsewhere}", [("GET", "{elsewhere}")]) == [None]
    finally:
        await link.close()


async def test_map_thrown_away_in_the_moment_it_arrives_is_read_again_and_nobody_spins(moving: Cluster):
    """Found by `make chaos`: the reading was done, its callback not run yet, and a lost connection dropped the map."""
    host, port = moving.nodes[0].address.split(":")
    link = ClusterLink([Address(host, int(port))], Dial(2.0))

    def spins(*_: object) -> None:
        raise AssertionError("the loop was blocked for 5 s")

    before = signal.signal(signal.SIGALRM, spins)
    signal.setitimer(signal.ITIMER_REAL, 5.0)  # a loop that never yields hears no time-out of its own
    try:
        read = asyncio.create_task(link._read_map_once())
        await read
        link._reading, link._slots = read, []
        assert await link.call("{somewhere}", [("GET", "{somewhere}")]) == [None]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        await link.close()


async def test_cluster_that_lost_a_node_still_hears_hints(make_cluster, prefix: str):
    cluster = make_cluster(node_timeout_ms=800)
    await until_replicas_confirm(cluster.url)
    async with redis_stage(cluster.url, prefix, timeout_s=0.5) as stage:
        survivor_lane = next(
            lane
            for n in range(100)
            if cluster.primary_of(redis_of(stage)._keys.lane(lane := f"near:net:a:{n}")) is not first(cluster)
        )
        await stage.ledger.register(LaneSpec(survivor_lane, POOL))
        while await stage.ledger.wait_wake([survivor_lane], 0.1):
            pass
        first(cluster).kill9()
        assert await stage.ledger.wait_wake([survivor_lane], 10) == {survivor_lane}
        await asyncio.to_thread(cluster.wait_ok)
        while await stage.ledger.wait_wake([survivor_lane], 0.3):
            pass
        waiting = asyncio.create_task(stage.ledger.wait_wake([survivor_lane], 20))
        await until(lambda: submit(stage, survivor_lane), 20)
        assert await waiting == {survivor_lane}


def first(cluster: Cluster) -> Any:
    """The node the ear listens to: the first of the primaries."""
    return min(cluster.nodes[:3], key=lambda node: (HOST, node.port))


async def submit(stage: Stage, lane: str) -> bool:
    try:
        return bool(await stage.queued(lane))
    except Unavailable:
        return False


async def test_deposed_primary_is_left_when_it_confirms_nothing(make_sentinel, prefix: str):
    """It still answers, but its replica follows another: only asking the sentinels again helps."""
    sentinel = make_sentinel(down_after_ms=500)
    await until_replicas_confirm(sentinel.url)
    async with redis_stage(sentinel.url, prefix, durability="replicas", timeout_s=1.0, wait_ms=100) as stage:
        lane = await stage.lane(LANE)
        await asyncio.to_thread(sentinel.fail_over, kill=False)
        await asyncio.to_thread(sentinel.wait_ok)
        await until(lambda: submit(stage, lane), 20)
        with sentinel.primary.client() as client:
            assert client.exists(redis_of(stage)._keys.queue(lane))


async def test_wire_that_breaks_fails_every_call_on_it_and_the_next_call_opens_another(make_server):
    server = make_server()
    async with FaultProxy(HOST, server.port) as proxy:
        node = Node(Address(HOST, proxy.port), Dial(1.0))
        assert await node.call([("PING",)], False) == [b"PONG"]
        proxy.blackhole(to_server=False)
        calls = [asyncio.create_task(node.call([("INCR", "n")], False)) for _ in range(5)]
        await until(lambda: proxy.commands.count(b"INCR") == 5)
        proxy.heal(drop=True)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(o, Unavailable) for o in outcomes), outcomes
        assert (await node.call([("GET", "n")], False))[0] == b"5"
        node.close()
