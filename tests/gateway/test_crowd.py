"""Two and three gateways on one Redis while one of them dies, stops or loses its store. The node's log is the judge."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from tests.gateway.crowd import Crowd, Instance, Wallets
from tests.gateway.senders import Sender
from tests.gateway.stage import Client, RpcError
from tests.gateway.strict import Strict, check, judge
from tests.servers import DURABLE
from tests.waiting import until

FAST = {"lag_ms": 1_500, "hold_ms": 8_000}
LAG = (0.2, 1.0)


async def taken(strict: Strict, senders: list[Sender], each: int, timeout: float = 90.0) -> None:
    wanted = {sender.address: list(range(each)) for sender in senders}

    def all_taken() -> bool:
        found = judge(strict.log()).taken
        return all(found.get(address) == nonces for address, nonces in wanted.items())

    await until(all_taken, timeout, every=0.2, what="everything at the node, in order")


async def gauges_are_zero(crowd: Crowd) -> None:
    def zero() -> bool:
        told = [
            *(crowd.instances[0].metric("transactions", state=state) for state in ("waiting", "processing", "unsure")),
            *(instance.metric("held") for instance in crowd.instances),
        ]
        return not any(told)

    await until(zero, 60.0, every=0.2, what="gauges back at 0")


async def pending(instance: Instance, sender: Sender) -> int:
    client = Client(instance.url)
    try:
        return await client.count(sender.address)
    finally:
        await client.http.aclose()


async def busy(strict: Strict, at_least: int) -> None:
    await until(lambda: len(strict.log()) >= at_least, 60.0, every=0.05, what="sends under way")


async def test_two_instances_share_the_order(make_strict, redis7, prefix):
    strict = make_strict(lag=LAG)
    with Crowd(strict, redis7.url, prefix, 2, **FAST) as crowd:
        senders, wallets = [Sender(strict.anvil) for _ in range(6)], Wallets(crowd)
        await wallets.send_all(senders, 8)
        await taken(strict, senders, 8)
        told = check(strict.log(), wallets.accepted)
        assert not wallets.refused
        assert told.repeats == 0
        for sender in senders:  # nothing is cached: both tell the same
            assert [await pending(instance, sender) for instance in crowd.instances] == [8, 8]
        await gauges_are_zero(crowd)


async def test_an_instance_killed_at_any_moment_loses_nothing(make_strict, redis7, prefix):
    strict = make_strict(lag=LAG)
    with Crowd(strict, redis7.url, prefix, 3, **FAST) as crowd:
        senders, wallets = [Sender(strict.anvil) for _ in range(6)], Wallets(crowd)
        sending = asyncio.create_task(wallets.send_all(senders, 10))
        for n, at_least in enumerate((5, 20, 35)):
            await busy(strict, at_least)
            instance = crowd.instances[n]
            instance.kill()
            await asyncio.to_thread(crowd.restart, instance)
        await sending
        await taken(strict, senders, 10)
        told = check(strict.log(), wallets.accepted, repeats=20)
        assert not wallets.refused
        print("repeats", told.repeats)
        await gauges_are_zero(crowd)


@pytest.mark.parametrize(("seconds", "instances"), [(3, 2), (3, 3), (6, 2), (6, 3), (40, 2), (40, 3)])
async def test_an_instance_that_was_stopped_for_a_while_sends_nothing_out_of_order(
    make_strict, redis7, prefix, seconds, instances
):
    """40 s with the default hold of 30 s: everything that it held is over when it wakes up."""
    strict = make_strict(lag=LAG)
    settings = {"lag_ms": 1_500} if seconds > 30 else FAST
    with Crowd(strict, redis7.url, prefix, instances, **settings) as crowd:
        senders, wallets = [Sender(strict.anvil) for _ in range(6)], Wallets(crowd)
        sending = asyncio.create_task(wallets.send_all(senders, 10))
        await busy(strict, 10)
        stopped = crowd.instances[0]
        stopped.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)  # what is tested is the time itself
        finally:
            stopped.signal(signal.SIGCONT)
        await sending
        await taken(strict, senders, 10)
        check(strict.log(), wallets.accepted, repeats=20)
        assert not wallets.refused
        await gauges_are_zero(crowd)


async def test_redis_restarts_and_nothing_accepted_is_lost(make_strict, make_server, prefix):
    strict, server = make_strict(lag=LAG), make_server(config=DURABLE)
    with Crowd(strict, server.url, prefix, 2, **FAST) as crowd:
        senders, wallets = [Sender(strict.anvil) for _ in range(6)], Wallets(crowd)
        sending = asyncio.create_task(wallets.send_all(senders, 10))
        await busy(strict, 10)
        await asyncio.to_thread(server.restart, kill=True)
        await sending
        await taken(strict, senders, 10)
        check(strict.log(), wallets.accepted, repeats=20)
        assert not wallets.refused


async def test_after_a_flush_nothing_hangs_and_nothing_is_out_of_order(make_strict, make_server, prefix):
    strict, server = make_strict(lag=LAG), make_server(config=DURABLE)
    with Crowd(strict, server.url, prefix, 2, answer_ms=60_000, **FAST) as crowd:
        caller, waiting, new = Client(crowd.instances[0].url), Sender(strict.anvil), Sender(strict.anvil)
        strict.hang_next(1)
        answer = asyncio.create_task(caller.send(waiting.sign(0)))
        await busy(strict, 1)
        senders, wallets = [Sender(strict.anvil) for _ in range(4)], Wallets(crowd)
        sending = asyncio.create_task(wallets.send_all(senders, 8))
        await busy(strict, 8)
        with server.client() as client:
            client.flushall()
        flushed_at = time.time()
        await Wallets(crowd).send_all([new], 1)
        await taken(strict, [new], 1)
        first = next(entry for entry in strict.log() if entry["sender"] == new.address)
        assert first["at"] >= flushed_at + 5.0 + FAST["lag_ms"] / 1000, "a new store is quiet until all others are"
        with pytest.raises(RpcError, match=r"^unknown, send the same bytes again$"):
            await answer
        await caller.http.aclose()
        async with asyncio.timeout(120):
            await sending
        told = judge(strict.log())
        assert told.wrong_nonces == told.out_of_order == 0
        lost = wallets.accepted - told.hashes
        print("lost after FLUSHALL:", len(lost))
        # whoever sends again, as a wallet does whose transaction is not known, gets everything through
        again = Wallets(crowd)
        await again.send_all(senders, 8)
        await taken(strict, senders, 8)
        told = judge(strict.log())
        assert told.wrong_nonces == told.out_of_order == 0


async def test_a_sentinel_failover_loses_nothing(make_strict, make_sentinel, prefix):
    strict, sentinel = make_strict(lag=LAG), make_sentinel()
    ledger = ['durability = "replicas"', "replicas = 1"]
    with Crowd(strict, sentinel.url, prefix, 2, ledger=ledger, **FAST) as crowd:
        senders, wallets = [Sender(strict.anvil) for _ in range(4)], Wallets(crowd)
        sending = asyncio.create_task(wallets.send_all(senders, 8))
        await busy(strict, 8)
        await asyncio.to_thread(sentinel.fail_over, kill=False)
        async with asyncio.timeout(120):
            await sending
        await taken(strict, senders, 8)
        check(strict.log(), wallets.accepted, repeats=20)
        assert not wallets.refused
