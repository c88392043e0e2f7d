"""Several nodes as one: any acceptance wins, what nodes say is weighed, batches fall back, nonces trip no breaker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from txmanager.chains.evm.nodes import Broadcaster, ask_many
from txmanager.core.chain import Verdict
from txmanager.core.models import Attempt, Purpose
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.errors import BadAnswer, RateLimited, RpcError
from txmanager.rpc.http import HttpRpc

ATTEMPTS = [Attempt(n, f"0x{n:064x}", bytes([n]), Purpose.FIRST, 0) for n in range(1, 4)]
HASHES = {"0x" + a.raw.hex(): a.hash for a in ATTEMPTS}


def taken(request: dict[str, Any]) -> Any:
    return {"result": HASHES.get(request["params"][0])}


def refused(message: str) -> Callable[[dict[str, Any]], Any]:
    return lambda request: {"error": {"code": -32000, "message": message}}


@asynccontextmanager
async def node(answer: Callable[[Any], Any], *, status: int = 200, delay: float = 0.0) -> AsyncIterator[Any]:
    """A server whose answers a test makes; `seen` is every body it got."""

    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                request = orjson.loads(await reader.readexactly(size))
                server.seen.append(request)
                await asyncio.sleep(delay)
                told = answer(request)
                if isinstance(told, dict) and isinstance(request, dict):
                    told = {"jsonrpc": "2.0", "id": request["id"], **told}
                body = told if isinstance(told, bytes) else orjson.dumps(told)
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    class Server:
        seen: list[Any] = []  # noqa: RUF012

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    server = Server()
    server.seen = []
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    try:
        yield server
    finally:
        listening.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # let the handlers see it, or they are cancelled with a traceback


def rpc_of(*nodes: Any, timeout_s: float = 2.0) -> HttpRpc:
    return HttpRpc([Endpoint(n.url, timeout_s=timeout_s, name=f"n{i}") for i, n in enumerate(nodes)], random.Random(1))


async def send(*nodes: Any, attempts: list[Attempt] | None = None) -> list[Verdict]:
    rpc = rpc_of(*nodes)
    broadcaster = Broadcaster(rpc)
    replies = await broadcaster.send("lane", ATTEMPTS if attempts is None else attempts)
    assert all(n.breaker.closed for n in rpc.nodes)
    await broadcaster.close()
    await rpc.close()
    return [reply.verdict for reply in replies]


async def test_any_acceptance_wins_and_refusals_trip_no_breaker():
    async with node(refused("nonce too low")) as low, node(taken) as good:
        assert await send(low, good) == [Verdict.ACCEPTED] * 3
        assert [r["params"] for r in good.seen] == [["0x01"], ["0x02"], ["0x03"]]
        assert len(low.seen) == 1  # n+1 only after n was taken


async def test_a_known_transaction_counts_as_sent():
    async with node(refused("already known")) as known:
        assert await send(known) == [Verdict.ALREADY_KNOWN] * 3


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("nonce too low", "insufficient funds", Verdict.NONCE_TOO_LOW),
        ("execution reverted", "replacement transaction underpriced", Verdict.REPLACEMENT_UNDERPRICED),
        ("execution reverted", "words nobody knows", Verdict.UNKNOWN),
        ("execution reverted", "intrinsic gas too low", Verdict.PERMANENT),
        ("txpool is full", "nonce too high", Verdict.NONCE_GAP),
    ],
)
async def test_when_nobody_takes_it_the_most_telling_word_counts(first, second, verdict):
    async with node(refused(first)) as one, node(refused(second)) as two:
        assert await send(one, two) == [verdict]


async def test_a_node_that_echoes_another_hash_is_not_believed():
    async with node(lambda request: {"result": "0x" + "00" * 32}) as odd:
        assert await send(odd) == [Verdict.UNKNOWN]


@pytest.mark.alone
async def test_a_hanging_node_delays_nobody_and_is_given_nothing_more():
    async with node(taken) as good, node(taken, delay=1.0) as slow:
        rpc = rpc_of(good, slow)
        broadcaster = Broadcaster(rpc)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(5):
            assert all(reply.verdict.sent for reply in await broadcaster.send("lane", ATTEMPTS))
        assert loop.time() - began < 0.9
        assert len(slow.seen) == 1
        await broadcaster.close()
        await rpc.close()


async def test_dead_nodes_leave_the_outcome_unknown():
    async with node(taken) as gone:
        pass
    rpc = rpc_of(gone)
    broadcaster = Broadcaster(rpc)
    assert [r.verdict for r in await broadcaster.send("lane", ATTEMPTS)] == [Verdict.UNAVAILABLE]
    assert not rpc.nodes[0].breaker.closed
    assert [r.verdict for r in await broadcaster.send("lane", ATTEMPTS)] == [Verdict.UNAVAILABLE]
    await rpc.close()


def answer_batch(request: Any) -> Any:
    if isinstance(request, list):
        answers = [{"jsonrpc": "2.0", "id": r["id"], "result": r["params"][0]} for r in reversed(request)]
        answers[0] = {"jsonrpc": "2.0", "id": answers[0]["id"], "error": {"code": -1, "message": "odd"}}
        return answers
    return {"result": request["params"][0]}


CALLS = [("m", [n]) for n in range(250)]


async def test_many_questions_are_few_requests_and_answers_keep_their_order():
    async with node(answer_batch) as fast:
        rpc = rpc_of(fast)
        answers = await ask_many(rpc, CALLS, "g")
        assert len(fast.seen) == 3
        failed = [n for n, answer in enumerate(answers) if isinstance(answer, RpcError)]
        assert failed == [99, 199, 249]
        assert [a for a in answers if not isinstance(a, RpcError)] == [n for n in range(250) if n not in failed]
        await rpc.close()


async def test_a_node_without_batches_is_asked_one_by_one():
    def refuse_batches(request: Any) -> Any:
        if isinstance(request, list):
            return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "batches are not supported"}}
        return {"result": request["params"][0]}

    async with node(refuse_batches) as slow:
        rpc = rpc_of(slow)
        assert await ask_many(rpc, CALLS[:5], "g") == list(range(5))
        assert await ask_many(rpc, CALLS[:5], "g") == list(range(5))
        assert len([r for r in slow.seen if isinstance(r, list)]) == 1
        await rpc.close()


async def test_a_missing_answer_is_a_failure_of_its_own():
    async with node(lambda request: [{"jsonrpc": "2.0", "id": request[1]["id"], "result": 7}]) as torn:
        rpc = rpc_of(torn)
        first, second = await ask_many(rpc, CALLS[:2], "g")
        assert isinstance(first, BadAnswer)
        assert second == 7
        await rpc.close()


async def test_the_next_node_is_asked_when_one_is_rate_limited_or_broken():
    async with (
        node(answer_batch, status=429) as busy,
        node(lambda request: b"<html>", status=502) as broken,
        node(answer_batch) as good,
    ):
        rpc = rpc_of(busy, broken, good)
        assert (await ask_many(rpc, CALLS[:2], "g"))[0] == 0
        await rpc.close()
        rpc = rpc_of(busy)
        with pytest.raises(RateLimited):
            await ask_many(rpc, CALLS[:2], "g")
        await rpc.close()
