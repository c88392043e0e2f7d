"""Sentences of the three source documents, each as a behaviour: switches, counts, shapes, reorganisations."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.gateway.senders import Sender
from tests.gateway.stage import RpcError, drained, gateway
from tests.gateway.strict import check, judge
from tests.waiting import until
from txmanager.core.admission import Count, Limits, Offer
from txmanager.core.after_send import Fate, after_send
from txmanager.core.chain import SendReply, Verdict
from txmanager.ledger.memory.mempool import MemoryMempool
from txmanager.ledger.redis.mempool import RedisMempool


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


async def test_forwarded_gaps_are_sent_in_order_of_arrival_and_sent_again_by_their_caller(make_strict):
    """The nonce lock's way: while the first is under way others queue up; nothing is kept for later."""
    strict = make_strict(lag=(0.0, 0.0), delay=0.3)
    sender, waiting = Sender(strict.anvil), []
    async with gateway(strict, gaps="forward", lag_ms=1_000) as gate:
        for nonce in (0, 2, 1, 3):
            waiting.append(asyncio.create_task(gate.send(sender.sign(nonce))))
            hash = sender.hash(sender.sign(nonce))

            async def stored(hash: str = hash) -> bool:
                return (await gate.status(hash))["state"] != "unknown"

            await until(stored, 30, what=f"nonce {nonce} stored")
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in told] == [str, RpcError, str, RpcError]
        assert [entry["nonce"] for entry in strict.log()] == [0, 2, 1, 3], "arrival gives the order"
        for nonce in (2, 3):
            await gate.send(sender.sign(nonce))
        await drained(gate)
    assert judge(strict.log()).taken == {sender.address: [0, 1, 2, 3]}


async def test_a_hundred_wait_while_the_first_hangs_and_each_gets_its_own_time(make_strict):
    strict = make_strict(lag=(0.2, 0.4), delay=0.0)
    sender = Sender(strict.anvil)
    async with gateway(strict, mode="async", hold_ms=4_000, lag_ms=1_000) as gate:
        strict.hang_next(1)
        hashes = [await gate.send(sender.sign(nonce)) for nonce in range(100)]
        await until(lambda: len(judge(strict.log()).hashes) == 100, 120, what="all at the node")
        assert check(strict.log(), hashes).taken[sender.address] == list(range(100))
        await drained(gate)


async def test_the_log_tells_times_and_queues_and_in_detail_each_step(make_strict):
    strict = make_strict(lag=(0.0, 0.0), delay=0.1)
    plain: list[Any] = []
    detailed: list[Any] = []
    for detail, lines in ((False, plain), (True, detailed)):
        sender = Sender(strict.anvil)
        with capture_logs() as found:
            async with gateway(strict, lag_ms=1_000, detail=detail) as gate:
                await asyncio.gather(*(gate.send(sender.sign(nonce)) for nonce in range(3)))
                await drained(gate)
        lines += [line for line in found if line["log_level"] == "debug"]
    for lines in (plain, detailed):
        taken = [line for line in lines if line["event"] == "hold taken"]
        released = [line for line in lines if line["event"] == "hold released"]
        assert [line["nonce"] for line in taken] == [line["nonce"] for line in released] == [0, 1, 2]
        assert all(line["waiting"] >= 0 and line["waited_ms"] >= 0 for line in taken)
        assert released[-1]["waiting"] == taken[-1]["waiting"] == 0
        assert all(line["held_ms"] > 0 for line in released if line["nonce"])
    told = {line["event"] for line in detailed}
    assert {"joined", "granted", "woken"} <= told
    assert not {"joined", "granted", "woken"} & {line["event"] for line in plain}


async def test_mempool_drop_all_touches_its_own_prefix_only(anvil, redis7, prefix, tmp_path):
    """By command, as an operator does it."""
    places, sender = dict[str, RedisMempool](), "0x" + "2" * 40
    for name, chain_id in ((prefix, 31337), (f"{prefix}-other", 31337), (f"{prefix}", 1)):
        mempool = RedisMempool(redis7.url, chain_id, Limits(), prefix=name, durability="none")
        await mempool.admit([Offer("0x" + "1" * 64, sender, 1, 5, b"x")], {sender: Count(0, "0xb", 1)})
        places[f"{name} {chain_id}"] = mempool
    config = tmp_path / "gateway.toml"
    network = f'[networks.anvil]\nchain = "evm"\nchain_id = 31337\nrpc = [{{ url = "{anvil.url}", direct = true }}]\n'
    ledger = f'[ledger]\nurl = "{redis7.url}"\nprefix = "{prefix}"\ndurability = "none"\n'
    config.write_text(f"{ledger}{network}[gateway]\n")

    def dropped() -> str:
        command = [sys.executable, "-m", "txmanager", "mempool", "drop", "--all", "--config", str(config)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    try:
        assert await asyncio.to_thread(dropped) == "0x" + "1" * 64 + "\n"
        left = {name: (await mempool.totals()).waiting for name, mempool in places.items()}
        assert left == {f"{prefix} 31337": 0, f"{prefix}-other 31337": 1, f"{prefix} 1": 1}
        assert await asyncio.to_thread(dropped) == "", "a second time there is nothing"
    finally:
        for mempool in places.values():
            await mempool.close()


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


async def test_pending_is_greater_while_one_is_under_way_and_the_next_goes_before_its_receipt(make_strict):
    strict = make_strict(lag=(600.0, 600.0), delay=0.0)
    sender = Sender(strict.anvil)
    async with gateway(strict, lag_ms=1_000) as gate:
        for nonce in range(3):
            hash = await gate.send(sender.sign(nonce))
            assert strict.rpc("eth_getTransactionReceipt", hash) is None, "nobody waited for it"
        for address in (sender.address, sender.account.address):  # lower case and checksummed
            assert await gate.count(address) == 3
            assert await gate.count(address, "latest") == 0
    assert judge(strict.log()).taken == {sender.address: [0, 1, 2]}


async def test_after_a_transaction_reverted_pending_equals_latest(anvil):
    sender = Sender(anvil)
    async with gateway(anvil) as gate:
        hash = await gate.send(sender.sign(0, to=b"", data="0x60006000fd", gas=100_000))
        await until(lambda: anvil.count(sender.address) == 1, 30)
        assert anvil.rpc("eth_getTransactionReceipt", hash)["status"] == "0x0"
        assert await gate.count(sender.address) == await gate.count(sender.address, "latest") == 1
        await drained(gate)


async def test_the_first_step_of_a_send_is_admit_and_garbage_costs_none(anvil):
    asked: list[str] = []

    async def note(operation: str, side: str) -> None:
        if side == "request" and operation not in ("totals", "heartbeat", "take", "expire", "followed", "observe"):
            asked.append(operation)

    sender = Sender(anvil)
    async with gateway(anvil, lambda limits: MemoryMempool(limits, hop=note)) as gate:
        asked.clear()
        for garbage in ("0x", "0xzz", "0x02", sender.sign(0, chainId=5), sender.sign(0, gas=1)):
            with pytest.raises(RpcError):
                await gate.send(garbage)
        assert asked == []
        await gate.send(sender.sign(0))
        assert asked[0] == "admit"


async def test_times_of_holds_and_of_waiting_are_metrics(make_strict):
    strict = make_strict(lag=(0.2, 0.4), delay=0.0)
    sender = Sender(strict.anvil)
    async with gateway(strict, hold_ms=4_000, lag_ms=1_000) as gate:
        strict.hang_next(1)
        await asyncio.gather(*(gate.send(sender.sign(nonce)) for nonce in range(3)))
        await drained(gate)
        assert gate.value("hold_seconds_count") >= 3
        assert gate.value("wait_seconds_count") >= 3


@pytest.mark.parametrize("verdict", Verdict)
def test_every_answer_of_a_node_has_a_fate(verdict):
    assert after_send(SendReply(verdict)) in Fate
