"""Followers of events: nothing missed, nothing out of order, whoever is slow reads from the ledger."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.waiting import until
from txmanager.api.streams import Streams, _pack
from txmanager.core.errors import Unavailable
from txmanager.core.ledger import Claim, Entry
from txmanager.core.models import Event, LaneSpec, new_intent
from txmanager.core.positions import place, place_text
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.deliver import events
from txmanager.runtime.deliver.events import EventHub, PoolFollower

LANES = [f"near:localnet:dev{n}.near:ed25519:x" for n in range(2)]


async def fill(ledger: MemoryLedger, lane: str, keys: list[str]) -> None:
    made = [new_intent(key=key, pool="p", kind="near.transfer", payload={}) for key in keys]
    claims = await ledger.claim([Claim(i.id, i.fingerprint, lane, "life") for i in made])
    await ledger.append(lane, [Entry(i, "life", c.born) for i, c in zip(made, claims, strict=True)])


async def stage() -> MemoryLedger:
    ledger = MemoryLedger()
    for lane in LANES:
        await ledger.register(LaneSpec(lane, "p"))
    return ledger


async def test_a_follower_that_fell_behind_goes_on_from_the_ledger(monkeypatch):
    monkeypatch.setattr(events, "_RECENT", 50)
    ledger = await stage()
    hub = EventHub(ledger, poll_s=0.001)
    async with hub.pool("p") as slow, hub.pool("p") as fast:
        await slow.join()
        heard: list[str] = []
        for n in range(30):
            await fill(ledger, LANES[n % 2], [f"{n}-{m}" for m in range(20)])
            heard += [e.intent.key for e in await fast.next(0.05)]
        behind: list[str] = []
        while len(behind) < 600:
            found = await slow.next(1.0)
            assert found
            behind += [e.intent.key for e in found]
    assert len(behind) == len(set(behind)) == 600
    for lane in range(2):
        order = [key for key in behind if int(key.split("-")[0]) % 2 == lane]
        assert order == sorted(order, key=lambda key: tuple(map(int, key.split("-"))))
    assert len(heard) == len(set(heard))


async def test_a_resumed_follower_starts_behind_its_places():
    ledger = await stage()
    hub = EventHub(ledger, poll_s=0.001)
    await fill(ledger, LANES[0], ["a", "b", "c"])
    seen = await ledger.events(LANES[0])
    async with hub.pool("p", {LANES[0]: place(seen[0].id)}) as follower:
        assert [e.intent.key for e in await follower.next(1.0)] == ["b", "c"]


async def test_lanes_are_read_only_while_somebody_follows():
    ledger = await stage()
    hub = EventHub(ledger, poll_s=0.001)
    reads: list[str] = []
    real = ledger.events

    async def counted(lane, after="0-0", count=100):
        reads.append(lane)
        return await real(lane, after, count)

    ledger.events = counted  # type: ignore[method-assign]
    made = new_intent(key="k", pool="p", kind="near.transfer", payload={})
    async with hub.intent(LANES[0], made.id) as follower:
        await fill(ledger, LANES[0], ["k", "other"])
        assert [e.intent.key for e in await follower.next(2.0)] == ["k"]
        await until(lambda: len(reads) > 2)
        assert hub.lanes == [LANES[0]]
    assert hub.lanes == []
    assert set(reads) == {LANES[0]}


Crowd = tuple[MemoryLedger, EventHub, list[str], Counter[str]]


@asynccontextmanager
async def many(
    count: int, *, hints: bool = True
) -> AsyncIterator[tuple[MemoryLedger, EventHub, list[str], Counter[str]]]:
    """A pool of idle lanes, and how often each was read."""
    ledger, reads = MemoryLedger(), Counter[str]()
    lanes = [f"near:localnet:a{n}.near:ed25519:x" for n in range(count)]
    for lane in lanes:
        await ledger.register(LaneSpec(lane, "p"))
    real = ledger.events

    async def counted(lane: str, after: str = "0-0", count: int = 100) -> list[Event]:
        reads[lane] += 1
        return await real(lane, after, count)

    async def deaf(lanes: Sequence[str], timeout_s: float) -> set[str]:
        await asyncio.sleep(timeout_s)
        return set()

    ledger.events = counted  # type: ignore[method-assign]
    if not hints:
        ledger.wait_news = deaf  # type: ignore[method-assign]
    hub = EventHub(ledger)
    try:
        yield ledger, hub, lanes, reads
    finally:
        hub.close()


async def test_idle_lanes_are_read_seldom_and_none_has_a_task():
    async with many(3_000) as (_, hub, _, reads), hub.pool("p") as follower:
        before = len(asyncio.all_tasks())
        await follower.join()
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await follower.next(1.0) == []
        took = loop.time() - began
        assert sum(reads.values()) < 3 * 100 * took + 50
        assert len(asyncio.all_tasks()) - before < 10


async def test_idle_lanes_wake_the_reader_seldom(monkeypatch: pytest.MonkeyPatch):
    """A timer ends a little early now and then: waiting for the rest of each moment by itself never rests."""
    wakes, rings = 0, events._rings

    async def counted(bell: asyncio.Event, timeout_s: float) -> None:
        nonlocal wakes
        wakes += 1
        await rings(bell, timeout_s)

    monkeypatch.setattr(events, "_rings", counted)
    monkeypatch.setattr(events, "_TOGETHER_S", 0.1)
    async with many(300) as (_, hub, _, reads), hub.pool("p") as follower:
        await follower.join()
        wakes = 0
        began = asyncio.get_running_loop().time()
        assert await follower.next(1.0) == []
        took = asyncio.get_running_loop().time() - began
        assert sum(reads.values()) > 20
        assert wakes <= took / 0.1 + 10


async def test_a_lane_that_is_rung_is_read_before_what_is_due_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "_TOGETHER_S", 5.0)
    async with many(30) as (ledger, hub, lanes, _), hub.pool("p") as follower:
        await follower.join()
        assert await follower.next(0.7) == []  # by now it waits for all that is due
        began = asyncio.get_running_loop().time()
        await fill(ledger, lanes[7], ["a"])
        assert [e.intent.key for e in await follower.next(4.0)] == ["a"]
        assert asyncio.get_running_loop().time() - began < 2.0


async def test_an_event_in_one_of_many_idle_lanes_is_told_at_once():
    async with many(3_000) as (ledger, hub, lanes, _), hub.pool("p") as follower:
        await follower.join()
        assert await follower.next(0.5) == []
        began = asyncio.get_running_loop().time()
        await fill(ledger, lanes[1_234], ["a"])
        assert [e.intent.key for e in await follower.next(20.0)] == ["a"]
        assert asyncio.get_running_loop().time() - began < 1.0, "a round over all of them takes thirty seconds"


async def test_without_any_hint_every_event_is_told_and_a_busy_lane_is_read_often():
    async with many(100, hints=False) as (ledger, hub, lanes, reads), hub.pool("p") as follower:
        await follower.join()
        await fill(ledger, lanes[50], ["a"])
        assert [e.intent.key for e in await follower.next(20.0)] == ["a"]
        reads.clear()
        assert await follower.next(1.0) == []
        assert reads[lanes[50]] >= 3
        assert sum(reads.values()) - reads[lanes[50]] < 3 * 100


async def test_a_lane_that_cannot_be_read_keeps_no_other_waiting():
    async with many(20) as (ledger, hub, lanes, _), hub.pool("p") as follower:
        counted, asked = ledger.events, asyncio.Event()

        async def broken(lane: str, after: str = "0-0", count: int = 100) -> list[Event]:
            if lane == lanes[0]:
                asked.set()
                await asyncio.sleep(30)
                raise Unavailable("away")
            return await counted(lane, after, count)

        ledger.events = broken  # type: ignore[method-assign]
        await follower.join()
        await asked.wait()
        await fill(ledger, lanes[1], ["a"])
        assert [e.intent.key for e in await follower.next(5.0)] == ["a"]


async def parked(ledger: MemoryLedger, lane: str) -> None:
    """As it is once nothing of it matters any more."""
    ledger.stores[lane].parked = True


async def test_a_lane_that_is_parked_tells_all_it_had_and_nothing_of_it_again():
    async with many(2, hints=False) as (ledger, hub, lanes, _):
        now = ledger._clock()
        ledger._clock = lambda: now - 7_200_000  # what happened before anybody followed
        await fill(ledger, lanes[0], ["old"])
        ledger._clock = lambda: now - 3_600_000
        hub.registry._fresh_s = 0.05
        async with hub.pool("p") as follower:
            await follower.join()
            await fill(ledger, lanes[0], ["a"])
            ledger._clock = lambda: now
            await parked(ledger, lanes[0])
            assert await told(follower) == ["a"]
            await until(lambda: quiet(follower, hub, [lanes[1]]), 20)
            ledger._clock = lambda: now + 3_600_000
            ledger.stores[lanes[0]].parked = False
            await fill(ledger, lanes[0], ["b"])
            assert await told(follower) == ["b"]


async def told(follower: PoolFollower) -> list[str]:
    while not (found := await follower.next(20.0)):
        pass  # woken for a lane that came or left
    return [event.intent.key for event in found]


async def quiet(follower: PoolFollower, hub: EventHub, lanes: list[str]) -> bool:
    assert await follower.next(0.05) == []
    return hub.lanes == lanes


async def test_a_stream_that_resumes_is_told_what_lanes_had_that_were_parked_meanwhile():
    async with many(3, hints=False) as (ledger, hub, lanes, _):
        now = ledger._clock()
        ledger._clock = lambda: now - 7_200_000
        await fill(ledger, lanes[0], ["old"])
        ledger._clock = lambda: now - 3_600_000
        async with hub.pool("p") as follower:
            await follower.join()
            id = _pack(follower)
        for lane in lanes[:2]:
            await fill(ledger, lane, [f"{lane}/{n}" for n in range(700)])
            await parked(ledger, lane)
        ledger._clock = lambda: now
        streams = Streams(None, hub, None, None, 1, 1)  # type: ignore[arg-type]
        hub.registry._fresh_s = 0.0
        at = await streams._place("p", id, await hub.registry.lanes("p"))
        async with hub.pool("p", at.places, at.base, at.parked) as follower:
            heard: list[str] = []
            while len(heard) < 1_400:
                ledger.stores[lanes[1]].parked = not heard  # it comes back
                found = await follower.next(20.0)
                heard += [event.intent.key for event in found]
        for lane in lanes[:2]:
            assert [key for key in heard if key.startswith(lane)] == [f"{lane}/{n}" for n in range(700)]


async def test_a_stream_that_was_away_for_a_moment_looks_at_no_parked_lane():
    async with many(2, hints=False) as (ledger, hub, lanes, _):
        async with hub.pool("p") as follower:
            await follower.join()
            id = _pack(follower)
        await parked(ledger, lanes[0])
        hub.registry._fresh_s = 0.0
        streams = Streams(None, hub, None, None, 1, 1)  # type: ignore[arg-type]
        assert (await streams._place("p", id, await hub.registry.lanes("p"))).parked == ()


async def test_a_place_names_no_lane_that_had_nothing_of_late(monkeypatch):
    monkeypatch.setattr(events, "LATE_MS", 2_000)
    monkeypatch.setattr(events, "_RAISE_EVERY_S", 0.2)
    async with many(50) as (ledger, hub, lanes, _):
        async with hub.pool("p") as follower:
            await follower.join()
            assert follower.places == {}
            await fill(ledger, lanes[7], ["a"])
            assert [e.intent.key for e in await follower.next(20.0)] == ["a"]
            assert list(follower.places) == [lanes[7]]

            async def forgotten() -> bool:
                assert await follower.next(0.1) == []
                return not follower.places

            await until(forgotten, 20)
            places, base = dict(follower.places), follower.base
        await fill(ledger, lanes[8], ["b"])
        async with hub.pool("p", places, base) as resumed:
            assert [e.intent.key for e in await resumed.next(20.0)] == ["b"]


async def test_a_lane_that_cannot_be_read_takes_no_events_of_another_with_it():
    ledger = await stage()
    for lane in LANES:
        await fill(ledger, lane, [lane])
    real, asked = ledger.events, 0

    async def away_once(lane: str, after: str = "0-0", count: int = 100) -> list[Event]:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise Unavailable("away")
        return await real(lane, after, count)

    ledger.events = away_once  # type: ignore[method-assign]
    async with EventHub(ledger, poll_s=20.0).pool("p", {}) as follower:
        keys = [event.intent.key for _ in range(2) for event in await follower.next(20.0)]
    assert sorted(keys) == LANES


async def test_a_lane_that_is_rung_again_and_again_keeps_its_turn():
    async with many(400) as (_, hub, lanes, reads), hub.pool("p") as follower:
        await follower.join()
        for lane in lanes:
            hub.ring(lane)
        while not reads[lanes[300]]:
            hub.ring(lanes[150])
            await asyncio.sleep(0.001)
        assert reads[lanes[150]], "it was behind all of them, for as long as hints came"


async def test_a_follower_that_resumes_is_told_a_bounded_part_at_a_time():
    async with many(20) as (ledger, hub, lanes, _):
        for lane in lanes:
            await fill(ledger, lane, [f"{lane}/{n}" for n in range(500)])
        async with hub.pool("p", {}) as follower:
            told: list[str] = []
            while len(told) < 20 * 500:
                found = await follower.next(20.0)
                assert 0 < len(found) <= 2_500
                told += [event.intent.key for event in found]
        assert len(set(told)) == len(told)


async def test_busy_lanes_keep_no_other_waiting(monkeypatch):
    monkeypatch.setattr(events, "_PAGE", 1)
    monkeypatch.setattr(events, "_MOST", 2)
    async with many(5, hints=False) as (ledger, hub, lanes, _):
        for lane in lanes:
            await fill(ledger, lane, [f"{lane}/{n}" for n in range(10 if lane != lanes[4] else 1)])
        async with hub.pool("p", {}) as follower:
            first = [event.lane for _ in range(3) for event in await follower.next(20.0)]
        assert set(first) == set(lanes)


async def test_a_lane_that_comes_while_others_are_busy_is_followed():
    async with many(1, hints=False) as (ledger, hub, lanes, _):
        hub.registry._fresh_s = 0.05
        async with hub.pool("p") as follower:
            await follower.join()
            new, told, n = f"{lanes[0]}new", set[str](), 0
            await ledger.register(LaneSpec(new, "p"))
            await fill(ledger, new, ["a"])
            began = asyncio.get_running_loop().time()
            while new not in told and asyncio.get_running_loop().time() - began < 2.0:
                await fill(ledger, lanes[0], [f"{n}"])
                busy = hub._tails[lanes[0]]
                busy.dispatch(await ledger.events(lanes[0], place_text(busy.cursor)))  # it never rests
                n += 1
                told |= {event.lane for event in await follower.next(20.0)}
                await asyncio.sleep(0.01)
            assert new in told


async def test_a_clock_that_is_set_back_changes_no_order_within_a_lane():
    async with many(2, hints=False) as (ledger, hub, lanes, _), hub.pool("p") as follower:
        await follower.join()
        await fill(ledger, lanes[0], ["a"])
        now = ledger._clock()
        ledger._clock = lambda: now - 1_000
        await fill(ledger, lanes[0], ["b"])
        assert await told(follower) == ["a", "b"]
