"""The proxy's promises: which commands were executed, and what the client saw of it."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from tests.servers import HOST, Server
from tests.servers.proxy import FaultProxy
from tests.servers.resp import command_words, message_end
from tests.waiting import until


@pytest.fixture
async def proxied(valkey9: Server):
    async with FaultProxy(HOST, valkey9.port) as proxy:
        client = redis.asyncio.Redis(port=proxy.port, retry=Retry(NoBackoff(), 0), socket_timeout=5)
        try:
            yield proxy, client
        finally:
            proxy.heal()
            await client.aclose()


async def test_cut_reply_loses_the_answer_of_an_executed_command(proxied, valkey9, prefix):
    proxy, client = proxied
    fault = proxy.cut_reply()
    with pytest.raises(redis.exceptions.ConnectionError):
        await client.incr(prefix)
    assert fault.fired.is_set()
    assert fault.words == [b"INCRBY", prefix.encode(), b"1"]
    assert valkey9.client().get(prefix) == "1"
    assert await client.incr(prefix) == 2


async def test_cut_reply_inside_a_pipeline_hits_the_named_command_only(proxied, valkey9, prefix):
    proxy, client = proxied
    proxy.cut_reply("INCRBY", skip=1)
    pipeline = client.pipeline(transaction=False)
    for n in range(3):
        pipeline.incrby(prefix, 10**n)
    with pytest.raises(redis.exceptions.ConnectionError):
        await pipeline.execute()
    assert valkey9.client().get(prefix) == "111"


async def test_half_reply_breaks_the_connection_in_the_middle_of_the_answer(proxied, valkey9, prefix):
    proxy, client = proxied
    await client.set(prefix, "x" * 1000)
    fault = proxy.half_reply("GET")
    with pytest.raises(redis.exceptions.ConnectionError):
        await client.get(prefix)
    assert fault.fired.is_set()
    assert await client.get(prefix) == b"x" * 1000


async def test_drop_request_never_reaches_the_server(proxied, valkey9, prefix):
    proxy, client = proxied
    proxy.drop_request("INCR")
    with pytest.raises(redis.exceptions.ConnectionError):
        await client.incr(prefix)
    assert valkey9.client().get(prefix) is None


async def test_silence_towards_the_client_executes_and_answers_late(proxied, valkey9, prefix):
    proxy, client = proxied
    await client.ping()
    proxy.blackhole(to_server=False)
    call = asyncio.create_task(client.incr(prefix))
    await until(lambda: valkey9.client().get(prefix) == "1")
    assert not call.done()
    proxy.heal()
    assert await call == 1


async def test_silence_towards_the_server_executes_nothing_until_healed(proxied, valkey9, prefix):
    proxy, client = proxied
    await client.ping()
    seen = len(proxy.commands)
    proxy.blackhole()
    call = asyncio.create_task(client.incr(prefix))
    await until(lambda: len(proxy.commands) > seen)
    assert valkey9.client().get(prefix) is None
    proxy.heal(drop=True)
    with pytest.raises(redis.exceptions.ConnectionError):
        await call
    assert valkey9.client().get(prefix) is None


async def test_refused_connections_come_back_after_heal(proxied, prefix):
    proxy, client = proxied
    proxy.refuse()
    with pytest.raises(redis.exceptions.ConnectionError):
        await client.ping()
    proxy.heal()
    assert await client.ping()


async def test_delay_makes_every_command_slower(proxied):
    proxy, client = proxied
    await client.ping()
    proxy.delay(0.05)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await client.ping()
    assert loop.time() - began >= 0.05


async def test_raw_mode_carries_any_protocol(valkey9):
    async with FaultProxy(HOST, valkey9.port, resp=False) as proxy:
        reader, writer = await asyncio.open_connection(HOST, proxy.port)
        writer.write(b"PING\r\n")
        assert await reader.readline() == b"+PONG\r\n"
        fault = proxy.cut_reply()
        writer.write(b"PING\r\n")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        assert fault.fired.is_set()


@pytest.mark.parametrize(
    "message",
    [
        b"+OK\r\n",
        b"$-1\r\n",
        b"$3\r\na\r\n\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*2\r\n$1\r\na\r\n*1\r\n:5\r\n",
        b"%1\r\n+k\r\n~2\r\n:1\r\n:2\r\n",
        b"|1\r\n+ttl\r\n:1\r\n+value\r\n",
        b"PING\r\n",
    ],
)
def test_a_message_ends_exactly_where_its_last_byte_is(message):
    assert message_end(message + b"+next\r\n") == len(message)
    assert all(message_end(message[:n]) is None for n in range(len(message)))


def test_the_words_of_a_command_are_binary_safe():
    assert command_words(b"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\x00\xff\r\n") == [b"GET", b"\r\n\x00\xff"]
