"""How an answer leaves: whole in one write, a stream as it comes, and nothing that ends a header's line."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from txmanager.api.call import Asgi, Reply, Send
from txmanager.api.connection import Connection, connection_class
from txmanager.api.metrics import ApiMetrics
from txmanager.api.places import Places
from txmanager.settings import ApiSettings

ASK = b"%s / HTTP/1.1\r\nHost: a\r\n%s\r\n"
BODY = b'{"status": "queued"}'


class Wire(asyncio.Transport):
    """What was written, call by call."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.writes: list[list[bytes]] = []
        self.ended = False

    def write(self, data: Any) -> None:
        self.writes.append([data])

    def writelines(self, parts: Any) -> None:
        self.writes.append(list(parts))

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.ended

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    @property
    def told(self) -> bytes:
        return b"".join(part for write in self.writes for part in write)


async def answer(app: Any, asked: bytes, wire: Wire | None = None) -> tuple[Wire, Connection]:
    wire, settings = wire or Wire(), ApiSettings()
    config = uvicorn.Config(app, http=connection_class(settings, Places(9, ApiMetrics())), lifespan="off", ws="none")
    config.load()
    made = cast(Any, config.http_protocol_class)(config=config, server_state=ServerState(), app_state={})
    made.connection_made(wire)
    made.data_received(asked)
    for _ in range(10):
        await asyncio.sleep(0)
    return wire, made


def whole(headers: list[tuple[bytes, bytes]], status: int = 202) -> Any:
    async def app(scope: Asgi, receive: Any, send: Send) -> None:
        await Reply(status, BODY, headers).send(None, send)

    return app


async def test_a_whole_answer_is_one_write_and_its_body_is_not_copied():
    wire, made = await answer(whole([(b"x", b"y")]), ASK % (b"GET", b""))
    [[head, body]] = wire.writes
    assert head == b"HTTP/1.1 202 Accepted\r\nx: y\r\ncontent-length: 20\r\n\r\n"
    assert body is BODY
    assert made.cycle.response_complete
    assert not wire.ended


async def test_an_answer_to_head_has_no_body():
    wire, _ = await answer(whole([]), ASK % (b"HEAD", b""))
    assert wire.told == b"HTTP/1.1 202 Accepted\r\ncontent-length: 20\r\n\r\n"


@pytest.mark.parametrize(("headers", "asked"), [([(b"connection", b"close")], b""), ([], b"Connection: close\r\n")])
async def test_a_connection_that_ends_says_so_once(headers, asked):
    wire, _ = await answer(whole(headers), ASK % (b"GET", asked))
    assert wire.told.count(b"connection: close\r\n") == 1
    assert wire.ended


async def test_a_header_cannot_begin_another_line(caplog):
    wire, _ = await answer(whole([(b"x", b"y\r\nset-cookie: z")]), ASK % (b"GET", b""))
    assert wire.told.startswith(b"HTTP/1.1 500 ")
    assert b"set-cookie" not in wire.told


async def test_a_stream_begins_with_its_first_part():
    more = asyncio.Event()

    async def app(scope: Asgi, receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"retry", "more_body": True})
        await more.wait()
        await send({"type": "http.response.body", "body": b"end", "more_body": False})

    wire, _ = await answer(app, ASK % (b"GET", b""))
    assert wire.told == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nretry\r\n"
    more.set()
    await asyncio.sleep(0.01)
    assert wire.told.endswith(b"3\r\nend\r\n0\r\n\r\n")


async def test_pipelined_requests_are_answered_one_after_the_other():
    wire, _ = await answer(whole([]), 3 * (ASK % (b"GET", b"")))
    assert [body for _, body in wire.writes] == 3 * [BODY]


async def test_nobody_is_answered_who_left():
    go_on = asyncio.Event()

    async def app(scope: Asgi, receive: Any, send: Send) -> None:
        await go_on.wait()
        await whole([])(scope, receive, send)

    wire, made = await answer(app, ASK % (b"GET", b""))
    made.connection_lost(None)
    go_on.set()
    await asyncio.sleep(0.01)
    assert wire.writes == []


async def test_what_a_client_does_not_read_stops_the_next_answer():
    wire, made = await answer(whole([]), b"")
    made.pause_writing()
    made.data_received(ASK % (b"GET", b""))
    await asyncio.sleep(0.01)
    assert wire.writes == []
    made.resume_writing()
    await asyncio.sleep(0.01)
    assert wire.told.endswith(BODY)


async def test_a_connection_that_was_answered_is_kept_for_thirty_seconds():
    wire, made = await answer(whole([]), ASK % (b"GET", b""))
    now = asyncio.get_running_loop().time()
    made.expire(now + 29)
    assert not wire.ended
    made.expire(now + 31)
    assert wire.ended


async def test_a_connection_that_waits_for_its_answer_is_kept():
    async def app(scope: Asgi, receive: Any, send: Send) -> None:
        await asyncio.Event().wait()

    wire, made = await answer(app, ASK % (b"GET", b""))
    made.expire(asyncio.get_running_loop().time() + 1_000)
    assert not wire.ended


async def test_a_body_that_never_comes_behind_a_pipelined_head_is_cut_off():
    async def app(scope: Asgi, receive: Any, send: Send) -> None:
        if scope["method"] == "POST":
            await receive()
        else:
            await whole([])(scope, receive, send)

    wire, made = await answer(app, ASK % (b"GET", b"") + ASK % (b"POST", b"Content-Length: 9\r\n"))
    limits = made.settings
    made.expire(asyncio.get_running_loop().time() + limits.header_timeout_s + limits.body_timeout_s + 1)
    assert wire.told.count(b"HTTP/1.1 408 ") == 1
    assert wire.ended


@pytest.mark.parametrize(("slow", "told"), [(b"GET / HT", 0), (ASK % (b"POST", b"Content-Length: 9\r\n"), 1)])
async def test_a_slow_request_is_not_told_so_before_the_one_ahead_of_it_is_answered(slow, told):
    go_on = asyncio.Event()

    async def app(scope: Asgi, receive: Any, send: Send) -> None:
        if scope["method"] == "POST":
            await receive()
        await go_on.wait()
        await whole([])(scope, receive, send)

    wire, made = await answer(app, ASK % (b"GET", b""))
    made.data_received(slow)
    made.expire(asyncio.get_running_loop().time() + 1_000)
    assert (wire.writes, wire.ended) == ([], False)
    go_on.set()
    await asyncio.sleep(0.01)
    made.expire(asyncio.get_running_loop().time() + 1)
    assert not wire.ended, "it has all of its time from now on: nothing of it was read before"
    made.expire(asyncio.get_running_loop().time() + 1_000)
    assert wire.told.startswith(b"HTTP/1.1 202 ")
    assert wire.told.count(b"HTTP/1.1 408 ") == told
    assert wire.ended


@pytest.mark.parametrize("bad", [b"no request\r\n\r\n", ASK % (b"GET", b"X: " + b"x" * 40_000 + b"\r\n")])
async def test_what_is_refused_behind_a_request_without_an_answer_is_not_answered_in_its_place(bad):
    async def app(scope: Asgi, receive: Any, send: Send) -> None:
        await asyncio.Event().wait()

    wire, made = await answer(app, ASK % (b"GET", b""))
    made.data_received(bad)
    assert (wire.writes, wire.ended) == ([], True)
