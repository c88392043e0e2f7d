"""Idle event streams on many lanes: they cost next to nothing, and one token leaves room for the others."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from tests.api.stage import Stage, bearer
from tests.api.test_followers import fill
from tests.waiting import until
from txmanager.core.models import LaneSpec
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.deliver.events import EventHub
from txmanager.settings import load
from txmanager.wiring import open_ledger

LANES, STREAMS = 200, 1_000
POOL = [f"near:localnet:crowd.near:ed25519:{n:03d}" for n in range(LANES)]


@asynccontextmanager
async def streams(stage: Stage, count: int, by: str = "all") -> AsyncIterator[list[bytes]]:
    """Open streams of the pool `main`; the status line of each."""
    authorization = bearer(by)["Authorization"]
    request = f"GET /v1/pools/main/events HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n".encode()
    connections = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
            writer.write(request)
            connections.append((reader, writer))
        yield [await reader.readline() for reader, _ in connections]
    finally:
        for _, writer in connections:
            writer.transport.abort()


def busy_s(pid: int) -> float:
    """Seconds of processor time it used so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.alone
async def test_a_thousand_idle_streams_on_hundreds_of_lanes_leave_the_api_to_others(
    make_stage, redis7, devnet, prefix, capsys
):
    stage: Stage = make_stage(redis7.url, prefix, devnet, lanes=1)
    ledger = await open_ledger(load(stage.config, {}))
    try:
        for lane in POOL:
            await ledger.register(LaneSpec(lane, "main"))
    finally:
        await ledger.close()
    stage.start_api()
    async with streams(stage, STREAMS) as statuses:
        assert Counter(status[:12] for status in statuses) == {b"HTTP/1.1 200": STREAMS}
        began, used = time.monotonic(), busy_s(stage.api.pid)
        waits = []
        async with httpx.AsyncClient(base_url=stage.url, headers=bearer(), timeout=10) as client:
            while time.monotonic() - began < 6:
                asked = time.monotonic()
                assert (await client.get("/v1/intents/nobody?pool=main")).status_code == 404
                waits.append(time.monotonic() - asked)
                await asyncio.sleep(0.1)
        share = (busy_s(stage.api.pid) - used) / (time.monotonic() - began)
        waits.sort()
    with capsys.disabled():
        print(
            f"\n{STREAMS} idle streams on {LANES} lanes: {share:.0%} of a core, median {waits[len(waits) // 2]:.3f} s"
        )
    assert share < 0.15, "of a core: 4 % where each follower looked for itself took 28 %"


async def test_a_token_has_its_own_number_of_streams(make_stage, redis7, devnet, prefix):
    stage: Stage = make_stage(redis7.url, prefix, devnet, lanes=1, api_more="max_streams_per_token = 3")
    stage.start_api()
    async with streams(stage, 3) as mine, streams(stage, 3, by="reader") as theirs:
        assert {status[:12] for status in [*mine, *theirs]} == {b"HTTP/1.1 200"}
        async with httpx.AsyncClient(base_url=stage.url, headers=bearer()) as client:
            refused = await client.get("/v1/pools/main/events")
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert "'all'" in refused.json()["detail"]
            assert (await client.get("/v1/lanes")).status_code == 200

    async def again() -> bool:
        async with streams(stage, 1) as [status]:
            return status.startswith(b"HTTP/1.1 200")

    await until(again, what="closed streams are given back")


async def test_the_registry_is_read_once_for_all_followers():
    ledger = MemoryLedger()
    for lane in POOL[:20]:
        await ledger.register(LaneSpec(lane, "p"))
    reads = 0
    real = ledger.routes

    async def counted():
        nonlocal reads
        reads += 1
        return await real()

    ledger.routes = counted  # type: ignore[method-assign]
    hub = EventHub(ledger, poll_s=0.01)
    async with AsyncExitStack() as open_ones:
        followers = [await open_ones.enter_async_context(hub.pool("p")) for _ in range(100)]
        await asyncio.gather(*(follower.join() for follower in followers))
        assert [await follower.next(0.01) for follower in followers] == [[]] * 100
        assert reads == 1
        await ledger.register(LaneSpec(POOL[20], "p"))
        await fill(ledger, POOL[20], ["late"])
        heard = await asyncio.gather(*(follower.next(10.0) for follower in followers))
        assert [[e.intent.key for e in events] for events in heard] == [["late"]] * 100, "a new lane is found by all"
        assert reads == 2
    hub.close()


@pytest.mark.parametrize("lanes", [1, 2_000])
async def test_reads_of_idle_lanes_are_bounded_however_many_there_are(lanes: int):
    hub = EventHub(MemoryLedger(), poll_s=0.1)
    names = [f"lane-{secrets.token_hex(4)}" for _ in range(lanes)]
    tails = await asyncio.gather(*map(hub.attach, names))
    assert lanes / hub.pause_s <= 1_000
    assert hub.pause_s >= 0.1
    for tail in tails:
        hub.detach(tail)
