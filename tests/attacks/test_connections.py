"""Clients that hold connections and give nothing for them: probes answer, others get a place, memory is bounded."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from tests.api.stage import Program, Stage, bearer
from tests.waiting import until, until_sync

PLACES = 40
PROBES = ["/healthz", "/readyz?for=submit", "/metrics"]
STREAM = f"GET /v1/pools/main/events HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer()['Authorization']}\r\n\r\n".encode()
UNREAD = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20


@pytest.fixture(scope="module")
def running(redis7, devnet) -> Iterator[Stage]:
    more = f"max_connections = {PLACES}\nwrite_timeout_s = 2.0\nheader_timeout_s = 60.0"
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, lanes=1, api_more=more) as stage:
        stage.api = Program("api", stage.config, open_files="-S -n 100")
        stage.start_api()
        yield stage


@pytest.fixture
def narrow(running: Stage) -> Stage:
    """An API with few places, all of them free again."""
    until_sync(lambda: metric(running, "txmanager_http_connections") == 1, 15, what="only our own connection is left")
    _begins[running.url] = running.api.log_file.stat().st_size
    return running


_begins: dict[str, int] = {}
"""Where in its log the current test begins, by stage."""


@asynccontextmanager
async def held(stage: Stage, count: int, request: bytes = b"") -> AsyncIterator[list[socket.socket]]:
    """Connections that say this, and never read."""
    loop = asyncio.get_running_loop()
    connections: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            connections.append(connection)
            await loop.sock_connect(connection, ("127.0.0.1", stage.port))
            if request:
                await loop.sock_sendall(connection, request)
        yield connections
    finally:
        for connection in connections:
            connection.close()


async def ask(stage: Stage, path: str) -> int:
    """On a connection of its own, as a probe does."""
    async with httpx.AsyncClient(headers=bearer(), timeout=5) as client:
        return (await client.get(stage.url + path)).status_code


def aborted(stage: Stage, reason: str, what: str = "count") -> int:
    """How many clients the log says were cut off for this reason."""
    text = stage.api.log_file.read_text()[_begins.get(stage.url, 0) :]
    lines = [json.loads(line) for line in text.splitlines()]
    return sum(x[what] for x in lines if x.get("event") == "clients aborted" and x["reason"] == reason)


def metric(stage: Stage, name: str) -> float:
    text = httpx.get(f"{stage.url}/metrics", timeout=5).text
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")))


def logged_as_json(stage: Stage) -> None:
    for line in stage.api.log_file.read_text().splitlines():
        json.loads(line)


async def test_silent_readers_neither_blind_the_probes_nor_keep_their_places(narrow: Stage):
    async with held(narrow, PLACES, UNREAD):
        for path in PROBES * 3:
            assert await ask(narrow, path) == 200, path

        async def served() -> bool:
            return await ask(narrow, "/v1/lanes") == 200

        await until(served, 8, what="a silent reader loses its place to somebody who asks")
        await until(lambda: aborted(narrow, "stalled") >= PLACES, 10, what="all of them are cut off, and logged")
    logged_as_json(narrow)


async def test_a_reader_that_takes_a_few_bytes_now_and_then_is_cut_off_too(narrow: Stage):
    loop = asyncio.get_running_loop()
    async with held(narrow, 1, UNREAD) as [connection]:

        async def drip() -> None:
            read = b"x"
            while read:
                read = await loop.sock_recv(connection, 1000)
                await asyncio.sleep(0.5)

        dripping = asyncio.create_task(drip())
        try:
            # the kernel's own time-out, which comes later, knows nothing of what we have not handed over yet
            await until(lambda: aborted(narrow, "stalled", "unsent_bytes") > 0, 10, what="it is cut off")
        finally:
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)


async def test_a_slow_reader_that_makes_progress_keeps_its_connection(narrow: Stage):
    loop = asyncio.get_running_loop()
    read = 0
    async with held(narrow, 1, UNREAD) as [connection]:
        expected = 20 * len(await _body(narrow, "/openapi.json"))
        began = loop.time()
        while read < expected:
            part = await asyncio.wait_for(loop.sock_recv(connection, 32 << 10), 5)
            assert part, f"cut off after {read} of {expected} bytes"
            read += len(part)
            await asyncio.sleep(0.05 if loop.time() - began < 4 else 0)
        assert loop.time() - began > 2, "it took longer than write_timeout_s"
    assert aborted(narrow, "stalled") == 0


async def _body(stage: Stage, path: str) -> bytes:
    async with httpx.AsyncClient() as client:
        return (await client.get(stage.url + path)).content


async def test_connections_that_say_nothing_give_their_places_to_callers(narrow: Stage):
    """`header_timeout_s` is a minute here: without eviction nobody would be served for so long."""
    async with held(narrow, PLACES):

        async def served() -> bool:
            return await ask(narrow, "/v1/lanes") == 200

        await until(served, 6, what="an ordinary request is served")
    async with httpx.AsyncClient(headers=bearer(), timeout=5) as client:
        kept = [client.get(f"{narrow.url}/v1/lanes") for _ in range(PLACES)]
        assert {answer.status_code for answer in await asyncio.gather(*kept)} == {200}
        assert await ask(narrow, "/v1/lanes") == 200, "the oldest idle keep-alive connection made room"
    await until(lambda: aborted(narrow, "no_request") >= 1, what="who made room is logged")


async def test_callers_who_wait_for_answers_are_not_sent_away_and_probes_still_answer(narrow: Stage):
    async with held(narrow, PLACES, STREAM) as streams:

        async def all_open() -> bool:
            return await asyncio.to_thread(metric, narrow, "txmanager_http_streams") == PLACES

        await until(all_open, what="every place is taken by a stream")
        async with httpx.AsyncClient(headers=bearer(), timeout=5) as client:
            refused = await client.get(f"{narrow.url}/v1/lanes")
        assert (refused.status_code, refused.json()["code"]) == (503, "too_many_connections")
        async with held(narrow, 200):  # silent ones on top, more than there are spare places
            for path in PROBES * 3:
                assert await ask(narrow, path) == 200, path
            assert await all_open()
            assert metric(narrow, "txmanager_http_connections") <= PLACES + 64, "counted, and bounded, at accept"
        streams.pop().close()

        async def served() -> bool:
            return await ask(narrow, "/v1/lanes") == 200

        await until(served, what="a free place is given to the next caller")


async def test_a_flood_of_pipelined_requests_is_cut_off_before_it_takes_memory(narrow: Stage):
    before = memory_mb(narrow.api.pid)
    flood = b"GET /v1/lanes HTTP/1.1\r\n\r\n" * 9_000
    for _ in range(20):
        _, writer = await asyncio.open_connection("127.0.0.1", narrow.port)
        writer.write(flood)
        with suppress(TimeoutError, ConnectionError):
            await asyncio.wait_for(writer.drain(), 5)
        writer.transport.abort()
    await until(lambda: aborted(narrow, "pipelined") > 0, what="it is cut off")
    assert await ask(narrow, "/healthz") == 200
    assert memory_mb(narrow.api.pid) - before < 30


def memory_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


HOSTILE = {
    "says nothing": b"",
    "stops in the headers": b"GET /v1/lanes HTTP/1.1\r\nX: " + b"x" * 30_000,
    "stops in the body": b"POST /v1/intents HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    + f"Authorization: {bearer()['Authorization']}\r\nContent-Length: 1000000\r\n\r\n".encode()
    + b"x" * 60_000,
    "does not read": UNREAD,
}


LIMITS_MB = {"says nothing": 15, "stops in the headers": 60, "stops in the body": 130, "does not read": 130}


@pytest.mark.alone
async def test_a_thousand_hostile_connections_take_bounded_memory(make_stage, redis7, devnet, prefix, capsys):
    more = "header_timeout_s = 60.0\nbody_timeout_s = 60.0\nwrite_timeout_s = 60.0"
    stage: Stage = make_stage(redis7.url, prefix, devnet, lanes=1, api_more=more)
    stage.start_api()
    before = memory_mb(stage.api.pid)
    for how, request in HOSTILE.items():
        async with held(stage, 1000, request):

            async def all_there() -> bool:
                return await asyncio.to_thread(metric, stage, "txmanager_http_connections") >= 1000

            await until(all_there, what="all of them are connected")
            assert await ask(stage, "/v1/lanes") == 200
            grown = memory_mb(stage.api.pid) - before
        with capsys.disabled():
            print(f"\n1,000 connections, each of which {how}: {grown:.0f} MB above the start")
        assert grown < LIMITS_MB[how]

        async def all_gone() -> bool:
            return await asyncio.to_thread(metric, stage, "txmanager_http_connections") < 10

        await until(all_gone, what="the next thousand begins without these")


def test_few_descriptors_lower_the_number_of_connections_and_everything_answers(make_stage, redis7, devnet, prefix):
    stage: Stage = make_stage(redis7.url, prefix, devnet, lanes=1)
    stage.api = Program("api", stage.config, open_files="-n 400")
    stage.start_api()
    told = json.loads(stage.api.said("max_connections lowered") or "{}")
    assert told["configured"] == 10_000
    assert 16 <= told["max_connections"] < 400
    assert "ulimit -n" in told["fix"]

    async def attack() -> None:
        async with held(stage, 900):
            for path in PROBES * 3:
                assert await ask(stage, path) == 200, path

            async def served() -> bool:
                return await ask(stage, "/v1/lanes") == 200

            await until(served, 8, what="an ordinary request is served")

    asyncio.run(attack())
    logged_as_json(stage)


def test_too_few_descriptors_are_refused_at_the_start_with_the_fix(make_stage, redis7, devnet, prefix):
    stage: Stage = make_stage(redis7.url, prefix, devnet, lanes=1)
    stage.api = Program("api", stage.config, open_files="-n 150")
    stage.api.start()

    def refused() -> bool:
        return "limit of open files" in stage.api.log_file.read_text()

    until_sync(refused, 15, what="it says why it does not start")
    assert "ulimit -n" in stage.api.log_file.read_text()


def test_the_soft_limit_is_raised_to_what_the_connections_need(running: Stage):
    with open(f"/proc/{running.api.pid}/limits") as limits:
        soft = next(line.split()[3] for line in limits if line.startswith("Max open files"))
    assert int(soft) > 100 + PLACES, "it was started with a soft limit of 100"
