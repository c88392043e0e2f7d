"""Slow, greedy and broken clients: bounded, answered where they can be, and never in anybody's way."""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import pytest

from tests.api.stage import Stage, bearer
from tests.waiting import until


@pytest.fixture(scope="module")
def strict(redis7, devnet):
    """An API with short patience and few places; it needs no worker."""
    more = "header_timeout_s = 1.0\nbody_timeout_s = 1.0\nmax_body_bytes = 65536\nmax_header_bytes = 8192\n"
    with Stage(
        redis7.url, "hostile", devnet, api_more=more + "max_streams = 1200\nmax_streams_per_token = 1200"
    ) as stage:
        stage.start_api()
        yield stage


async def talk(stage: Stage, data: bytes, *, then: bytes = b"") -> tuple[bytes, float]:
    """Everything the server says to these bytes until it closes the connection, and after how long."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
    try:
        writer.write(data)
        if then:
            await writer.drain()
            writer.write(then)
        async with asyncio.timeout(8):
            return await reader.read(), time.monotonic() - began
    except ConnectionResetError:
        return b"", time.monotonic() - began
    finally:
        writer.transport.abort()


def head(body_length: int | None = None, *lines: str) -> bytes:
    length = [] if body_length is None else [f"Content-Length: {body_length}"]
    token = f"Authorization: {bearer()['Authorization']}"
    told = ["POST /v1/intents HTTP/1.1", "Host: x", token, "Content-Type: application/json", "Idempotency-Key: k"]
    return "\r\n".join([*told, *length, *lines, "", ""]).encode()


async def test_a_connection_that_says_nothing_is_closed(strict: Stage):
    said, took = await talk(strict, b"")
    assert said.startswith(b"HTTP/1.1 408")
    assert took < 4


async def test_headers_that_drip_are_cut_off(strict: Stage):
    reader, writer = await asyncio.open_connection("127.0.0.1", strict.port)
    began = time.monotonic()

    async def drip() -> None:
        for byte in head(10):
            writer.write(bytes([byte]))
            await asyncio.sleep(0.1)

    dripping = asyncio.create_task(drip())
    try:
        async with asyncio.timeout(8):
            said = await reader.read(65536)
    finally:
        dripping.cancel()
        writer.transport.abort()
    assert said.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < 4


async def test_a_body_that_never_comes_is_cut_off(strict: Stage):
    said, took = await talk(strict, head(100), then=b'{"pool"')
    assert said.startswith(b"HTTP/1.1 408")
    assert b"request_too_slow" in said
    assert took < 5


@pytest.mark.parametrize("lines", [["X-Long: " + "x" * 9000], [f"X-{n}: y" for n in range(2000)]])
async def test_headers_beyond_the_limit_are_refused(strict: Stage, lines):
    said, _ = await talk(strict, head(0, *lines))
    assert said.startswith(b"HTTP/1.1 413"), said[:200]
    assert b"headers_too_large" in said


async def test_an_endless_header_is_cut_off_before_it_fills_memory(strict: Stage):
    said, took = await talk(strict, b"GET / HTTP/1.1\r\nX: " + b"x" * 5_000_000)
    assert b"headers_too_large" in said or said == b""
    assert took < 5


async def test_a_body_of_ten_megabytes_is_refused_before_it_is_read(strict: Stage):
    said, _ = await talk(strict, head(10_000_000))
    assert said.startswith(b"HTTP/1.1 413")
    assert b"body_too_large" in said


async def test_ten_megabytes_in_chunks_are_refused_at_the_limit(strict: Stage):
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    said, _ = await talk(strict, head(None, "Transfer-Encoding: chunked"), then=chunk * 160)
    assert said.startswith(b"HTTP/1.1 413") or said == b"", said[:100]


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\x00" * 100, b"PRI * HTTP/2.0\r\n\r\n"]
)
async def test_what_is_no_http_is_answered_400_and_closed(strict: Stage, data):
    said, _ = await talk(strict, data)
    assert said.startswith(b"HTTP/1.1 400") or said.startswith(b"HTTP/1.1 408")
    assert b"problem+json" in said


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{", 400),
        ("application/json", b"[1]", 400),
        ("application/json", b'{"a":' * 2000 + b"1" + b"}" * 2000, 400),
        ("application/json", b'{"pool":"main","kind":"near.transfer","payload":{"receiver_id":1,"amount":[]}}', 422),
        ("text/plain", b"{}", 415),
        ("", b"{}", 415),
    ],
)
async def test_bodies_of_every_wrong_kind_get_their_own_answer(strict: Stage, content_type, body, status):
    headers = {**bearer(), "Idempotency-Key": "k", "Content-Type": content_type}
    async with httpx.AsyncClient(base_url=strict.url) as client:
        answer = await client.post("/v1/intents", content=body, headers=headers)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        packed = {**headers, "Content-Type": "application/json", "Content-Encoding": "gzip"}
        assert (await client.post("/v1/intents", content=body, headers=packed)).status_code == 415


async def test_pipelined_requests_are_answered_in_order(strict: Stage):
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /nope HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    said, _ = await talk(strict, request * 20 + last)
    assert said.count(b"HTTP/1.1 200") == 20
    assert said.rindex(b"HTTP/1.1 404") > said.rindex(b"HTTP/1.1 200")


async def test_a_pattern_of_the_table_is_a_path_like_any_other(strict: Stage):
    """Braces in a path are its own: they name no part of it."""
    request = head(None, "Connection: close").replace(b"POST /v1/intents ", b"GET /v1/intents/{key} ")
    said, _ = await talk(strict, request)
    assert said.startswith(b"HTTP/1.1 404 ")
    assert b"no intent '{key}'" in said


async def test_a_bad_token_tried_a_thousand_times_is_slowed_down_and_never_logged(strict: Stage):
    guesses = [f"guess-{n}-abcdef" for n in range(1000)]
    answers: dict[int, int] = {}
    async with httpx.AsyncClient(base_url=strict.url, limits=httpx.Limits(max_connections=20)) as client:

        async def guess(token: str) -> None:
            status = (await client.get("/v1/lanes", headers={"Authorization": f"Bearer {token}"})).status_code
            answers[status] = answers.get(status, 0) + 1

        for start in range(0, 1000, 50):
            await asyncio.gather(*map(guess, guesses[start : start + 50]))
        assert answers[401] + answers[429] == 1000
        assert answers[429] > 900
        assert (await client.get("/v1/lanes", headers=bearer())).status_code == 200, "known tokens are not locked out"
    log = strict.api.log_file.read_text()
    lines = [json.loads(line) for line in log.splitlines() if "unknown token" in line]
    assert 1 <= len(lines) <= 60
    assert all(line["address"] == "127.0.0.1" for line in lines)
    assert "guess-" not in log


def memory_kb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def test_a_thousand_idle_streams_cost_little_and_the_rest_is_told_to_come_back(strict: Stage):
    before = memory_kb(strict.api.pid)
    request = f"GET /v1/pools/main/events HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer()['Authorization']}\r\n\r\n"
    connections = []
    try:
        for _ in range(1200):
            reader, writer = await asyncio.open_connection("127.0.0.1", strict.port)
            writer.write(request.encode())
            connections.append((reader, writer))
        for reader, _ in connections:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        grown = memory_kb(strict.api.pid) - before
        assert grown < 1200 * 60, f"{grown} kB for 1200 streams"
        async with httpx.AsyncClient(base_url=strict.url, headers=bearer()) as client:
            refused = await client.get("/v1/pools/main/events")
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert (await client.get("/v1/lanes")).status_code == 200, "the rest of the API goes on"
    finally:
        for _, writer in connections:
            writer.transport.abort()

    async def all_gone() -> bool:
        async with httpx.AsyncClient(base_url=strict.url) as client:
            return "txmanager_http_streams 0.0" in (await client.get("/metrics")).text

    await until(all_gone, what="every stream is forgotten when its client is gone")
