"""Sentences of the three source documents, each as a behaviour: switches, counts, shapes, reorganisations."""

from __future__ import annotations

import asyncio

import pytest

from tests.evm.geth import Geth
from tests.gateway import sdks
from tests.gateway.senders import Sender
from tests.gateway.stage import RpcError, drained, gateway
from tests.gateway.strict import check, judge
from tests.gateway.test_clients import check_flow, key
from tests.waiting import until


async def test_pool_without_ordering_records_and_sends_on_arrival(anvil):
    sender = Sender(anvil)
    async with gateway(anvil, ordering=False) as gate:
        hash = await gate.send(sender.sign(0))
        assert (await gate.status(hash))["state"] in ("sent", "landed", "ended")
        await until(lambda: anvil.count(sender.address) == 1, 30)
        await drained(gate)


async def test_ordering_without_pool_proxies_pending_and_txpool(anvil):
    sender = Sender(anvil)
    async with gateway(anvil, txpool=False) as gate:
        await gate.send(sender.sign(1))
        assert await gate.count(sender.address) == 0
        assert await gate.ask("txpool_status") == anvil.rpc("txpool_status")
        await gate.send(sender.sign(0))
        await until(lambda: anvil.count(sender.address) == 2, 30, what="the gap filled in order")


async def test_without_both_bytes_are_checked_and_passed_on(make_strict):
    strict = make_strict(lag=(0.0, 0.0), delay=0.0)
    sender = Sender(strict.anvil)
    async with gateway(strict, txpool=False, ordering=False, lag_ms=1_000) as gate:
        with pytest.raises(RpcError, match="intrinsic gas too low"):
            await gate.send(sender.sign(0, gas=20_000))
        with pytest.raises(RpcError, match="nonce too high"):
            await gate.send(sender.sign(1))
        await gate.send(sender.sign(0))
    assert judge(strict.log()).taken == {sender.address: [0]}


async def test_forwarded_gaps_are_sent_in_order_of_arrival(make_strict):
    """The nonce lock's way: nothing is kept for later, and the caller sends again."""
    strict = make_strict(lag=(0.0, 0.0), delay=0.0)
    sender = Sender(strict.anvil)
    async with gateway(strict, gaps="forward", mode="async", lag_ms=1_000) as gate:
        await gate.send(sender.sign(1))
        await until(lambda: judge(strict.log()).wrong_nonces >= 1, 30, what="the node refused the gap")


async def test_the_node_decides_and_pending_falls_back_to_the_chain(make_strict):
    strict = make_strict(lag=(0.0, 0.0), delay=0.0)
    sender = Sender(strict.anvil)
    async with gateway(strict, lag_ms=1_000) as gate:
        assert await gate.count(sender.address) == await gate.count(sender.address, "latest") == 0
        strict.refuse_next(1, "Insufficient funds for transfer")
        with pytest.raises(RpcError, match="insufficient funds for gas"):
            await gate.send(sender.sign(0))
        assert await gate.count(sender.address) == 0
        await gate.send(sender.sign(0, value=2))
        await until(lambda: strict.count(sender.address) == 1, 30)
        assert await gate.count(sender.address) == await gate.count(sender.address, "latest") == 1
        await drained(gate)


async def test_a_send_that_hangs_is_looked_up_and_its_successors_follow(make_strict):
    """Many wait while the first hangs: each gets a fresh hold, nothing is sent twice, nobody times out in the queue."""
    strict = make_strict(lag=(0.2, 0.4), delay=0.0)
    sender = Sender(strict.anvil)
    async with gateway(strict, hold_ms=5_000, lag_ms=1_000) as gate:
        strict.hang_next(1)
        hashes = await asyncio.gather(*(gate.send(sender.sign(nonce)) for nonce in range(30)))
        await until(lambda: len(judge(strict.log()).hashes) == 30, 60, what="all at the node")
        assert check(strict.log(), hashes).taken[sender.address] == list(range(30))
        await drained(gate)


async def test_txpool_has_geths_shapes(gate, anvil):
    sender = Sender(anvil)
    hash = await gate.send(sender.sign(3))
    shown = await gate.ask("txpool_contentFrom", sender.address)
    assert shown["pending"] == {}
    one = shown["queued"]["3"]
    assert (one["hash"], one["from"], one["nonce"], one["blockHash"]) == (hash, sender.address, "0x3", None)
    content = await gate.ask("txpool_content")
    assert content["queued"][sender.account.address]["3"] == one
    line = (await gate.ask("txpool_inspect"))["queued"][sender.account.address]["3"]
    assert line == "0x1111111111111111111111111111111111111111: 1 wei + 21000 gas × 10000000000 wei"
    assert await gate.ask("eth_getTransactionByHash", hash) == one


async def test_a_reorganisation_sends_again_what_it_took_back(make_anvil):
    anvil = make_anvil("--slots-in-an-epoch", "1")
    sender = Sender(anvil)
    async with gateway(anvil, finality="ethereum") as gate:
        await gate.send(sender.sign(0))
        await until(lambda: anvil.count(sender.address) == 1, 30)
        hash = await gate.send(sender.sign(1))
        await until(lambda: anvil.count(sender.address) == 2, 30)

        async def landed() -> bool:
            return (await gate.status(hash))["state"] == "landed"

        await until(landed, 30, every=0.1, what="the second one landed")
        anvil.rpc("anvil_reorg", 1, [])
        await until(lambda: anvil.count(sender.address) == 2, 60, what="it is on the chain again")
        assert anvil.rpc("eth_getTransactionReceipt", hash)["status"] == "0x1"


@pytest.mark.parametrize("library", ["ethers", "viem"])
async def test_a_client_before_a_real_geth(library):
    with Geth("--dev.period", "1") as geth:
        sender = Sender()
        geth.fund(sender.address)
        async with gateway(geth) as gate:
            check_flow(
                await asyncio.to_thread(sdks.run, library, "flow", gate.url, key(sender), chain_id=geth.chain_id)
            )
