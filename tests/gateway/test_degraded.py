"""The store goes away and comes back. `refuse` sends nothing and says so; `forward` keeps the order of this process."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.crowd import Crowd
from tests.gateway.senders import Sender
from tests.gateway.stage import Client, RpcError
from tests.gateway.strict import check, judge
from tests.servers import DURABLE
from tests.waiting import until

FAST = {"lag_ms": 1_500, "hold_ms": 8_000, "store_timeout_ms": 500}


async def ready(client: Client) -> tuple[int, str]:
    reply = await client.http.get(client.url + "/readyz")
    return reply.status_code, reply.json()["status"]


async def becomes(client: Client, status: str) -> None:
    async def is_so() -> bool:
        return (await ready(client))[1] == status

    await until(is_so, 60.0, every=0.1, what=f"readyz {status}")


async def test_refuse_accepts_nothing_and_says_so(make_strict, make_server, prefix):
    strict, server = make_strict(lag=(0.2, 0.5)), make_server(config=DURABLE)
    with Crowd(strict, server.url, prefix, 1, **FAST) as crowd:
        client, sender = Client(crowd.instances[0].url), Sender(strict.anvil)
        await client.send(sender.sign(0))
        await asyncio.to_thread(server.kill9)
        await becomes(client, "degraded")
        assert (await ready(client))[0] == 503
        with pytest.raises(RpcError) as told:
            await client.send(sender.sign(1))
        assert (told.value.code, told.value.message) == (-32603, "store unavailable, nothing accepted")
        assert judge(strict.log()).taken[sender.address] == [0]
        assert int(await client.ask("eth_blockNumber"), 16) > 0, "reads go on"
        await asyncio.to_thread(server.start)
        await becomes(client, "ok")
        hash = await client.send(sender.sign(1))
        check(strict.log(), [hash])
        await client.http.aclose()


async def test_forward_keeps_this_processs_order_and_pending_never_falls(make_strict, make_server, prefix):
    strict, server = make_strict(lag=(0.2, 0.5)), make_server(config=DURABLE)
    with Crowd(strict, server.url, prefix, 1, on_store_failure="forward", **FAST) as crowd:
        [instance] = crowd.instances
        client, sender = Client(instance.url), Sender(strict.anvil)
        counts = []

        async def pending() -> int:
            counts.append(await client.count(sender.address))
            return counts[-1]

        hashes = [await client.send(sender.sign(nonce)) for nonce in range(3)]
        assert await pending() == 3
        await asyncio.to_thread(server.kill9)
        await becomes(client, "degraded")
        assert (await ready(client))[0] == 200
        assert instance.metric("degraded") == 1
        assert await pending() == 3
        hashes += await asyncio.gather(*(client.send(sender.sign(nonce)) for nonce in (5, 4, 3)))
        await until(lambda: len(judge(strict.log()).taken[sender.address]) == 6, 60.0, what="six at the node")
        assert await pending() == 6
        assert instance.metric("forwarded_total") >= 3
        assert instance.metric("store_failures_total") >= 1
        assert instance.said().count('"the store is away"') == 1, "one line per outage"
        await asyncio.to_thread(server.start)
        await becomes(client, "ok")
        assert await pending() == 6
        hashes.append(await client.send(sender.sign(6)))
        assert await pending() == 7
        assert counts == sorted(counts)
        assert check(strict.log(), hashes).taken[sender.address] == list(range(7))
        await until(lambda: instance.metric("degraded") == 0, 30.0)
        await client.http.aclose()


async def test_forward_starts_without_the_store_and_finds_it_later(make_strict, make_server, prefix):
    strict, server = make_strict(lag=(0.2, 0.5)), make_server(config=DURABLE)
    await asyncio.to_thread(server.kill9)
    with Crowd(strict, server.url, prefix, 1, on_store_failure="forward", **FAST) as crowd:
        client, sender = Client(crowd.instances[0].url), Sender(strict.anvil)
        await becomes(client, "degraded")
        hashes = [await client.send(sender.sign(nonce)) for nonce in range(2)]
        await asyncio.to_thread(server.start)
        await becomes(client, "ok")
        hashes.append(await client.send(sender.sign(2)))
        await until(lambda: len(judge(strict.log()).hashes) == 3, 60.0, what="three at the node")
        assert check(strict.log(), hashes).taken[sender.address] == [0, 1, 2]
        await client.http.aclose()
