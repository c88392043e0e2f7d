"""What following sent transactions costs the node, and the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.gateway.senders import Sender
from tests.gateway.stage import drained, gateway
from tests.gateway.strict import Strict
from tests.waiting import until
from txmanager.core.upstream import Found
from txmanager.ledger.redis.mempool import RedisMempool


async def test_a_landed_hash_is_asked_for_again_only_when_its_block_is_final(anvil):
    async with gateway(anvil, finality="optimism") as gate:  # ten blocks
        sender, follower, asked = Sender(anvil), gate.node._main.follower, Counter[str]()
        find = gate.node.upstream.find

        async def counted(hashes: Sequence[str]) -> list[Found | None]:
            asked.update(hashes)
            return await find(hashes)

        gate.node.upstream.find = counted  # type: ignore[method-assign]
        hash = await gate.send(sender.sign(0))
        await until(lambda: hash in follower._found_at, 30, what="a landed hash")
        before = asked[hash]
        for _ in range(4):
            anvil.rpc("anvil_mine", "0x1")
            height = anvil.number("eth_blockNumber")
            await until(lambda height=height: follower._height >= height, 30, what="the new block")
        assert asked[hash] == before
        anvil.rpc("anvil_mine", "0xa")
        await drained(gate)
        assert asked[hash] == before + 1
        await until(lambda: not follower._found_at, 30, what="a follower that remembers nothing")


async def test_a_caller_that_waits_for_a_slow_node_costs_the_store_nothing(make_strict, redis7, prefix):
    strict: Strict = make_strict(lag=(0.2, 0.4), delay=0.5)

    def store(limits: Any) -> RedisMempool:
        return RedisMempool(redis7.url, 31337, limits, prefix=prefix, durability="none")

    async with gateway(strict, store) as gate:
        sender = Sender(strict.anvil)
        await gate.send(sender.sign(0))  # from here on the subscription is not new
        found, find = Counter[str](), gate.node.mempool.find

        async def counted(hash: str) -> Any:
            found[hash] += 1
            return await find(hash)

        gate.node.mempool.find = counted  # type: ignore[method-assign]
        hashes = [await gate.send(sender.sign(nonce)) for nonce in range(1, 6)]
        assert sum(found.values()) <= len(hashes), "the store was asked again and again"
