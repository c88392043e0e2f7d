"""Raw transactions through the gateway to real nodes: order, gaps, replacements, and what callers are told."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.senders import GWEI, Sender
from tests.gateway.stage import RpcError, drained, gateway
from tests.gateway.strict import Strict, check
from tests.waiting import until


async def test_a_burst_that_the_strict_node_refuses_directly_goes_through_in_order(strict: Strict):
    before = len(strict.log())
    async with gateway(strict) as gate:
        senders = [Sender(strict.anvil) for _ in range(4)]
        raws = [sender.sign(nonce) for nonce in range(10) for sender in senders]
        hashes = await asyncio.gather(*(gate.send(raw) for raw in raws))
        told = check(strict.log()[before:], hashes)
        assert told.taken == {sender.address: list(range(10)) for sender in senders}
        await drained(gate)


async def test_a_gap_waits_and_fills(anvil):
    async with gateway(anvil) as gate:
        sender = Sender(anvil)
        later = [await gate.send(sender.sign(nonce)) for nonce in (2, 1)]
        assert await gate.count(sender.address) == 0
        assert (await gate.status(later[0]))["state"] == "gapped"
        first = await gate.send(sender.sign(0))
        await until(lambda: anvil.count(sender.address) == 3, 30, what="the gap filled")
        for hash in (first, *later):
            assert anvil.rpc("eth_getTransactionReceipt", hash)["status"] == "0x1"
        assert await gate.count(sender.address) == 3
        await drained(gate)


async def test_pending_is_the_contiguous_run(anvil):
    async with gateway(anvil) as gate:
        sender = Sender(anvil)
        await gate.send(sender.sign(4))
        assert await gate.count(sender.address) == 0
        for nonce in range(3):
            await gate.send(sender.sign(nonce))
        assert await gate.count(sender.address) == 3
        assert await gate.count(sender.address, "latest") == anvil.count(sender.address)


async def test_a_refusal_of_the_node_is_told_and_removes_the_transaction(strict: Strict):
    async with gateway(strict) as gate:
        sender = Sender(strict.anvil)
        await gate.send(sender.sign(0))
        strict.refuse_next(1, "execution reverted: no")
        with pytest.raises(RpcError, match="execution reverted: no"):
            await gate.send(sender.sign(1))
        assert await gate.count(sender.address) == 1
        hash = await gate.send(sender.sign(1, price=11 * GWEI))
        check(strict.log()[-1:], [hash])


async def test_the_same_bytes_twice(anvil):
    async with gateway(anvil) as gate:
        sender = Sender(anvil)
        await gate.send(sender.sign(1))
        with pytest.raises(RpcError, match=r"^already known$"):
            await gate.send(sender.sign(1))
    async with gateway(anvil, duplicates="hash") as gate:
        raw = sender.sign(1)
        assert await gate.send(raw) == await gate.send(raw) == sender.hash(raw)


async def test_a_dearer_transaction_replaces_one_that_waits(anvil):
    async with gateway(anvil) as gate:
        sender = Sender(anvil)
        cheap = await gate.send(sender.sign(1))
        with pytest.raises(RpcError, match=r"^replacement transaction underpriced$"):
            await gate.send(sender.sign(1, value=2))
        dear = await gate.send(sender.sign(1, price=20 * GWEI))
        assert (await gate.status(cheap))["reason"] == "replaced"
        await gate.send(sender.sign(0))
        await until(lambda: anvil.count(sender.address) == 2, 30)
        assert anvil.rpc("eth_getTransactionReceipt", dear) is not None


async def test_senders_do_not_wait_for_each_other(make_strict):
    strict = make_strict(lag=(600.0, 600.0), delay=0.0)
    async with gateway(strict, lag_ms=1_000) as gate:
        stuck, free = Sender(strict.anvil), Sender(strict.anvil)
        strict.hang_next(1)
        waiting = asyncio.create_task(gate.send(stuck.sign(0)))
        await until(lambda: any(e["sender"] == stuck.address for e in strict.log()), 30)
        for nonce in range(5):
            await gate.send(free.sign(nonce))
        assert not waiting.done()
        waiting.cancel()


async def test_a_lane_of_this_installation_is_refused(anvil):
    sender = Sender(anvil)
    async with gateway(anvil, lanes=lambda: frozenset({sender.address})) as gate:
        with pytest.raises(RpcError, match=r"^invalid sender: this address is a lane"):
            await gate.send(sender.sign(0))


async def test_async_answers_before_the_node_does(make_strict):
    strict = make_strict(lag=(0.0, 0.0), delay=0.0)
    async with gateway(strict, mode="async", lag_ms=1_000) as gate:
        sender = Sender(strict.anvil)
        strict.hang_next(1)
        async with asyncio.timeout(10):
            hash = await gate.send(sender.sign(0))
        assert (await gate.status(hash))["state"] in ("processing", "sent", "landed")
