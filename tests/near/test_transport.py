"""The transport against peers that hang, close, flood and lie: every call ends in time with a clear answer."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import time
import tracemalloc

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.near.peers import Peer, echo, peer, raw_peer, reply
from tests.waiting import until
from txmanager.core.errors import InvalidSettings
from txmanager.rpc import (
    BadAnswer,
    CircuitOpen,
    ConnectionFailed,
    Endpoint,
    HttpRpc,
    RateLimited,
    RpcError,
    RpcFailure,
    TimedOut,
)
from txmanager.rpc.connection import Connection
from txmanager.rpc.errors import TooLarge
from txmanager.rpc.node import HttpNode


def rpc(*urls: str, direct: bool = False, **more) -> HttpRpc:
    more = {"timeout_s": 0.5, "connect_timeout_s": 0.5} | more
    return HttpRpc([Endpoint(url, direct=direct, **more) for url in urls], random.Random(0))


async def hang(peer: Peer, request, writer) -> None:
    await asyncio.Event().wait()


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# questions


async def test_calls_reuse_one_connection():
    async with peer() as server:
        client = rpc(server.url)
        assert [await client.call("m", [i]) for i in range(20)] == [[i] for i in range(20)]
        assert server.connections == 1
        await client.close()


async def test_a_connection_that_went_stale_is_replaced_without_a_word():
    async def once(peer, request, writer):
        writer.write(reply(request))
        await writer.drain()
        return True  # closes without having said so

    async with peer(once) as server:
        client = rpc(server.url)
        for _ in range(5):
            assert await client.call("m", []) == "ok"
        await client.close()


async def test_a_body_without_a_length_ends_with_the_connection():
    async with raw_peer(b'HTTP/1.1 200 OK\r\n\r\n{"id":1,"result":7}', hold=False) as port:
        client = rpc(f"http://127.0.0.1:{port}")
        assert await client.call("m", []) == 7
        await client.close()


async def test_an_abandoned_call_never_gives_its_answer_to_the_next():
    release = asyncio.Event()

    async def slow_once(peer, request, writer):
        if len(peer.requests) == 1:
            await release.wait()
        writer.write(reply(request, request["params"]))

    async with peer(slow_once) as server:
        client = rpc(server.url)
        abandoned = asyncio.create_task(client.call("m", ["first"], timeout=5))
        await until(lambda: server.requests)
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        release.set()
        assert await client.call("m", ["second"]) == ["second"]
        await client.close()


@pytest.mark.alone
async def test_one_group_that_hangs_never_makes_another_wait():
    async def partly(peer, request, writer):
        if request["params"] == ["slow"]:
            await asyncio.Event().wait()
        writer.write(reply(request))

    async with peer(partly) as server:
        client = rpc(server.url, timeout_s=5)
        stuck = [asyncio.create_task(client.call("m", ["slow"], group="a")) for _ in range(100)]
        await until(lambda: len(server.requests) >= 16)
        started = time.monotonic()
        await asyncio.gather(*(client.call("m", ["quick"], group="b") for _ in range(20)))
        assert time.monotonic() - started < 2
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        await client.close()


@pytest.mark.alone
async def test_two_urls_one_hanging_no_call_waits_longer_than_its_time_out_and_the_bad_one_is_left_alone():
    async with peer(hang) as bad, peer() as good:
        client = rpc(bad.url, good.url, timeout_s=1)
        started = time.monotonic()
        assert await client.call("m", [1]) == [1]
        assert time.monotonic() - started < 1
        asked = len(bad.requests)
        for i in range(50):
            started = time.monotonic()
            assert await client.call("m", [i]) == [i]
            assert time.monotonic() - started < 1
        # Asked again now and then, by one caller each; not by every call.
        assert len(bad.requests) - asked <= 3
        asked = len(bad.requests)
        # Later it is tried again, and used again once it is well.
        bad.script = echo
        await until(lambda: _asked(client, bad, asked))
        await client.close()


async def _asked(client: HttpRpc, server: Peer, before: int) -> bool:
    await client.call("m", [])
    return len(server.requests) > before


@pytest.mark.alone
async def test_sends_of_a_lane_move_on_when_its_node_hangs():
    async with peer(hang) as bad, peer() as good:
        client = rpc(bad.url, good.url)
        started = time.monotonic()
        [first] = await client.send("lane", "send", [[1], [2]])
        assert isinstance(first, TimedOut)
        assert time.monotonic() - started < 1
        assert await client.send("lane", "send", [[1], [2]]) == [[1], [2]]
        await client.close()


async def test_with_every_node_away_calls_fail_at_once_and_recover_by_themselves():
    port = unused_port()
    client = rpc(f"http://127.0.0.1:{port}/")
    with pytest.raises(ConnectionFailed):
        await client.call("m", [])
    with pytest.raises(CircuitOpen):
        await client.call("m", [])
    assert [type(a) for a in await client.send("lane", "m", [[1]])] == [CircuitOpen]
    async with peer(port=port):

        async def works() -> bool:
            try:
                return bool(await client.call("m", [1]))
            except RpcFailure:
                return False

        await until(works)
    await client.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n", RateLimited),
        (b"HTTP/1.1 429 Slow\r\ncontent-length: 6\r\n\r\n<html>", RateLimited),
        (b"HTTP/1.1 502 Bad\r\ncontent-length: 4\r\n\r\noops", BadAnswer),
        (b"HTTP/1.1 413 Large\r\ncontent-length: 21\r\n\r\nlength limit exceeded", TooLarge),
        (b'HTTP/1.1 413 Large\r\ncontent-length: 27\r\n\r\n{"error":{"name":"BROKEN"}}', TooLarge),
        (b'HTTP/1.1 500 X\r\ncontent-length: 27\r\n\r\n{"error":{"name":"BROKEN"}}', RpcError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", BadAnswer),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n" + b'{"id":99,"result":1}', BadAnswer),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull", BadAnswer),
        (b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", RpcFailure),
        (b"SSH-2.0-OpenSSH\r\n", BadAnswer),
    ],
)
async def test_answers_that_are_no_connection_errors_do_not_trip_the_breaker(answer, error):
    async with raw_peer(answer, hold=True) as port:
        client = rpc(f"http://127.0.0.1:{port}")
        for _ in range(3):
            with pytest.raises(error) as caught:
                await client.call("m", [])
            if caught.type is TimedOut:
                break
        assert caught.type is TimedOut or client.nodes[0].breaker.closed
        await client.close()


# floods


async def test_a_huge_body_is_cut_off():
    async with raw_peer(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x" * 300_000, hold=True) as port:
        client = rpc(f"http://127.0.0.1:{port}", max_body=100_000)
        with pytest.raises(BadAnswer, match="cut off after 100000 bytes"):
            await client.call("m", [])
        await client.close()


async def test_an_endless_body_is_cut_off():
    chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    async with raw_peer(b"8\r\nxxxxxxxx\r\n", hold=True, repeat=True) as port, peer() as _:
        client = rpc(f"http://127.0.0.1:{port}", max_body=100_000)
        with pytest.raises(RpcFailure):
            await client.call("m", [])
        await client.close()

    async def endless(peer, request, writer):
        writer.write(chunk)
        while True:
            writer.write(b"8\r\nxxxxxxxx\r\n" * 1000)
            await writer.drain()

    async with peer(endless) as server:
        client = rpc(server.url, max_body=100_000, timeout_s=5)
        with pytest.raises(BadAnswer, match="cut off"):
            await client.call("m", [])
        await client.close()


async def test_endless_headers_are_cut_off():
    async def endless(peer, request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x-a: b\r\n" * 1000)
            await writer.drain()

    async with peer(endless) as server:
        client = rpc(server.url, timeout_s=5)
        with pytest.raises(BadAnswer, match="headers"):
            await client.call("m", [])
        await client.close()


@pytest.mark.alone
async def test_a_trickle_ends_at_the_time_out():
    async def trickle(peer, request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with peer(trickle) as server:
        client = rpc(server.url)
        started = time.monotonic()
        with pytest.raises(TimedOut):
            await client.call("m", [])
        assert time.monotonic() - started < 1
        await client.close()


http_like = st.builds(
    lambda status, headers, body: b"HTTP/1.1 %d X\r\n%s\r\n%s" % (status, headers, body),
    st.integers(0, 1200),
    st.sampled_from(
        [
            b"",
            b"content-length: 5\r\n",
            b"content-length: -1\r\n",
            b"transfer-encoding: chunked\r\n",
            b"a\r\n",
            b"\x00\r\n",
        ]
    ),
    st.binary(max_size=60) | st.sampled_from([b"[" * 5000, b'{"error":{}}', b'{"error":[1]}', b'{"result":{}}']),
)


@given(st.binary(max_size=200) | http_like, st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_bytes_from_a_node_are_a_clear_failure_in_time(answer, hold):
    async def one() -> None:
        async with raw_peer(answer, hold=hold) as port:
            client = rpc(f"http://127.0.0.1:{port}", timeout_s=0.05)
            async with asyncio.timeout(2):
                with pytest.raises(RpcFailure) as caught:
                    await client.call("m", [])
                assert str(caught.value)
                [failed] = await client.send("lane", "m", [[1], [2]])
                assert isinstance(failed, RpcFailure)
            await client.close()

    asyncio.run(one())


# ordered sends


def numbers(server: Peer) -> list[int]:
    return [request["params"][0] for request in server.requests]


async def test_a_balanced_endpoint_gets_each_send_after_the_answer_to_the_one_before():
    most = 0

    async def watch(peer, request, writer):
        nonlocal most
        await asyncio.sleep(0)  # whatever was sent ahead would have arrived
        most = max(most, len(peer.requests) - answered[0])
        answered[0] += 1
        writer.write(reply(request, request["params"]))

    answered = [0]
    async with peer(watch) as server:
        client = rpc(server.url, direct=False)
        assert await client.send("lane", "m", [[i] for i in range(50)]) == [[i] for i in range(50)]
        assert most == 1
        assert numbers(server) == list(range(50))
        await client.close()


async def test_a_direct_endpoint_gets_sends_pipelined_in_order_on_one_connection():
    held: list[bytes] = []

    async def answers_eight_at_once(peer, request, writer):
        held.append(reply(request, request["params"]))
        if len(held) == 8:  # never reached by a client that waits for the first answer
            writer.write(b"".join(held))
            held.clear()

    async with peer(answers_eight_at_once) as server:
        client = rpc(server.url, direct=True, pipeline=8)
        assert await client.send("lane", "m", [[i] for i in range(96)]) == [[i] for i in range(96)]
        assert numbers(server) == list(range(96))
        assert server.connections == 1
        await client.close()


@pytest.mark.parametrize("polite", [True, False])
@pytest.mark.parametrize("direct", [True, False])
async def test_a_peer_that_closes_after_each_answer_keeps_the_order(polite, direct):
    async def closing(peer, request, writer):
        writer.write(reply(request, request["params"], extra="connection: close\r\n" if polite else ""))
        await writer.drain()
        return True

    async with peer(closing) as server:
        client = rpc(server.url, direct=direct)
        assert await client.send("lane", "m", [[i] for i in range(30)]) == [[i] for i in range(30)]
        seen = numbers(server)
        assert list(dict.fromkeys(seen)) == list(range(30))
        assert server.connections >= 30
        await client.close()


async def test_a_peer_that_works_slowly_one_by_one_keeps_the_order():
    async def serial(peer, request, writer):
        await asyncio.sleep(0.002)
        writer.write(reply(request, request["params"]))

    async with peer(serial) as server:
        client = rpc(server.url, direct=True)
        assert await client.send("lane", "m", [[i] for i in range(100)]) == [[i] for i in range(100)]
        assert numbers(server) == list(range(100))
        await client.close()


async def test_a_lane_that_sent_nothing_for_a_while_keeps_no_connection(monkeypatch):
    """An installation may have a hundred thousand addresses, of which few send at once."""
    async with peer() as server:
        client = rpc(server.url)
        node = client.nodes[0]
        assert isinstance(node, HttpNode)
        await client.send("busy", "send", [[0]])
        for n in range(20):
            await client.send(f"lane {n}", "send", [[n]])
        monkeypatch.setattr(node, "_now", lambda now=node._now: now() + 3_600.0)
        assert await client.send("busy", "send", [[1]]) == [[1]]
        assert list(node._lanes) == ["busy"]
        assert await client.send("lane 7", "send", [[7]]) == [[7]]
        assert sum(connection.usable for connection in node._open) == 2
        await client.close()


async def test_a_send_that_fails_ends_the_batch_and_what_was_ahead_of_its_answer():
    async def refuse_third(peer, request, writer):
        if request["params"] == [2]:
            writer.write(b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n")
        else:
            writer.write(reply(request, request["params"]))

    async with peer(refuse_third) as server:
        client = rpc(server.url)
        answers = await client.send("lane", "m", [[i] for i in range(10)])
        assert answers[:2] == [[0], [1]]
        assert isinstance(answers[2], RateLimited)
        assert len(answers) == 3
        assert numbers(server) == [0, 1, 2]
        await client.close()


@pytest.mark.parametrize("direct", [False, True])
async def test_a_send_above_the_endpoints_limit_is_not_sent_and_ends_the_batch_at_its_place(direct):
    async with peer(echo) as server:
        client = rpc(server.url, direct=direct, max_request_bytes=1_000)
        for large in (0, 3, 9):
            batch = [["x" * 2_000] if i == large else [i] for i in range(10)]
            answers = await client.send("lane", "m", batch)
            assert answers[:-1] == batch[:large]
            assert isinstance(answers[-1], TooLarge)
            assert "1000" in str(answers[-1])
        assert all(len(str(request)) < 1_000 for request in server.requests)
        await client.close()


async def test_two_batches_of_one_lane_never_interleave_and_two_lanes_do_not_wait():
    async def slow_lane(peer, request, writer):
        if request["params"][0] == "slow":
            await asyncio.sleep(0.01)
        writer.write(reply(request, request["params"]))

    async with peer(slow_lane) as server:
        client = rpc(server.url)
        first = asyncio.create_task(client.send("a", "m", [["slow", i] for i in range(10)]))
        second = asyncio.create_task(client.send("a", "m", [["slow", i] for i in range(10, 20)]))
        await until(lambda: server.requests)
        await client.send("b", "m", [["quick", i] for i in range(10)])
        assert not first.done()
        await asyncio.gather(first, second)
        assert [r["params"][1] for r in server.requests if r["params"][0] == "slow"] == list(range(20))
        await client.close()


# endpoints


def test_an_api_key_in_a_url_or_header_is_never_shown():
    endpoint = Endpoint("https://rpc.example.com/v1/SECRETKEY?k=SECRETKEY", authorization="Bearer SECRETKEY")
    assert "SECRETKEY" not in repr(endpoint) + endpoint.name
    assert b"Authorization: Bearer SECRETKEY" in endpoint.head()


@pytest.mark.parametrize(
    "url",
    ["ftp://x", "http://", "http://a b", "http://u:p@host", "http://host:99999999", "nonsense", "http://host/\r\nx:y"],
)
def test_a_wrong_url_is_refused(url):
    with pytest.raises(InvalidSettings):
        Endpoint(url)


async def test_a_certificate_nobody_vouches_for_is_refused(tmp_path):
    from tests.near.certificates import self_signed

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path))
    made = Peer(echo)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    client = rpc(f"https://127.0.0.1:{port}/")
    with pytest.raises(ConnectionFailed, match=r"(?i)certificate"):
        await client.call("m", [])
    assert made.requests == []
    server.close()
    await client.close()


# many questions at once


async def test_a_direct_endpoint_gets_questions_pipelined_on_one_connection():
    held: list[bytes] = []

    async def answers_eight_at_once(peer, request, writer):
        held.append(reply(request, request["params"]))
        if len(held) == 8:  # never reached by a client that waits for the first answer
            writer.write(b"".join(held))
            held.clear()

    async with peer(answers_eight_at_once) as server:
        client = rpc(server.url, direct=True)
        calls = [("m", [i]) for i in range(8)]
        assert await client.call_each(calls) == [[i] for i in range(8)]
        assert await client.call_each(calls) == [[i] for i in range(8)]
        assert server.connections == 1
        await client.close()


@pytest.mark.parametrize("direct", [True, False])
async def test_one_question_that_fails_fails_alone(direct):
    async def refuse_third(peer, request, writer):
        error = {"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_TRANSACTION"}}
        told = {"jsonrpc": "2.0", "id": request["id"], "error": error}
        body = orjson.dumps(told if request["params"] == [2] else {**told, "error": None, "result": request["params"]})
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    async with peer(refuse_third) as server:
        client = rpc(server.url, direct=direct)
        answers = await client.call_each([("m", [i]) for i in range(6)])
        assert [a for a in answers if not isinstance(a, RpcFailure)] == [[0], [1], [3], [4], [5]]
        assert isinstance(answers[2], RpcError)
        assert answers[2].cause == "UNKNOWN_TRANSACTION"
        await client.close()


@pytest.mark.alone
async def test_a_question_that_hangs_in_a_pipeline_ends_in_time_and_costs_only_what_is_behind_it():
    async def hang_at_third(peer, request, writer):
        if request["params"] == [2]:
            await asyncio.Event().wait()
        writer.write(reply(request, request["params"]))

    async with peer(hang_at_third) as server:
        client = rpc(server.url, direct=True)
        began = time.monotonic()
        answers = await client.call_each([("m", [i]) for i in range(5)], timeout=0.2)
        assert time.monotonic() - began < 2
        assert answers[:2] == [[0], [1]]
        assert [type(a) for a in answers[2:]] == [TimedOut] * 3
        assert await client.nodes[0].call("m", [7], timeout=0.2) == [7]  # on a connection of its own
        await client.close()


async def test_questions_to_a_peer_that_closes_after_each_answer_are_all_answered():
    async def closing(peer, request, writer):
        writer.write(reply(request, request["params"]))
        await writer.drain()
        return True

    async with peer(closing) as server:
        client = rpc(server.url, direct=True)
        assert await client.call_each([("m", [i]) for i in range(10)]) == [[i] for i in range(10)]
        await client.close()


async def test_questions_that_one_node_cannot_answer_go_to_the_next():
    async def busy(peer, request, writer):
        writer.write(b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n")

    async with peer(busy) as first, peer() as second:
        client = rpc(first.url, second.url, direct=True)
        assert await client.call_each([("m", [i]) for i in range(4)]) == [[i] for i in range(4)]
        assert len(second.requests) == 4
        await client.close()


async def test_a_question_rides_behind_pipelined_sends_and_never_before_them():
    async with peer() as server:
        client = rpc(server.url, direct=True, pipeline=8)
        answers = await client.send("lane", "m", [[i] for i in range(20)], then=("query", [99]))
        assert answers == [*([i] for i in range(20)), [99]]
        assert numbers(server) == [*range(20), 99]
        assert server.connections == 1
        await client.close()


async def test_no_question_rides_behind_sends_through_a_balancer():
    async with peer() as server:
        client = rpc(server.url, direct=False)
        assert await client.send("lane", "m", [[i] for i in range(3)], then=("query", [99])) == [[0], [1], [2]]
        assert numbers(server) == [0, 1, 2]
        await client.close()


async def test_a_send_that_fails_is_the_last_answer_also_with_a_question_behind():
    async def refuse_third(peer, request, writer):
        if request["params"] == [2]:
            writer.write(b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n")
        else:
            writer.write(reply(request, request["params"]))

    async with peer(refuse_third) as server:
        client = rpc(server.url, direct=True)
        answers = await client.send("lane", "m", [[i] for i in range(5)], then=("query", [99]))
        assert answers[:2] == [[0], [1]]
        assert isinstance(answers[2], RateLimited)
        assert len(answers) == 3
        await client.close()


def test_a_connection_is_small_for_each_lane_has_one():
    tracemalloc.start()
    kept = [Connection("node", 1_000) for _ in range(200)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(kept) < 1_500
