"""A node that wants us to pay: it names absurd prices, or calls every price too low. Our money stays ours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.attacks.liar import Liar, liar
from tests.evm.stage import PATIENT, Stage, new_signer
from tests.waiting import until
from txmanager.chains.evm.network import GWEI, EvmNetwork
from txmanager.core.models import Record

NETWORK = EvmNetwork(finality=1, max_fee=500 * GWEI, fees_fresh_s=0.0)
SMALL = NETWORK.max_fee // 50
ABSURD = hex(10**15)


def dear(method: str, _: Any, answer: dict[str, Any]) -> dict[str, Any]:
    if method == "eth_feeHistory":
        result = answer["result"]
        result["baseFeePerGas"] = [ABSURD for _ in result["baseFeePerGas"]]
    return answer


def greedy(method: str, _: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """Every block was full of transactions that paid an absurd tip."""
    if method == "eth_feeHistory":
        result = answer["result"]
        result["gasUsedRatio"] = [1.0 for _ in result["gasUsedRatio"]]
        result["reward"] = [[ABSURD] for _ in result["gasUsedRatio"]]
    return answer


def offered(record: Record) -> int:
    return max(int(attempt.terms["max_fee_per_gas"]) for attempt in record.attempts)


def staged(anvil: Any, *nodes: Liar, network: EvmNetwork = NETWORK) -> Stage:
    return Stage(anvil, [new_signer()], urls=[node.url for node in nodes], network=network, policy=PATIENT)


@pytest.mark.parametrize("lie", [dear, greedy])
async def test_jump_that_one_node_alone_tells_is_not_paid(make_anvil: Any, lie: Any) -> None:
    anvil = make_anvil()
    async with liar(anvil.url) as node, staged(anvil, node) as stage:
        await stage.submit(stage.transfer("before"))
        await stage.until_done("before")
        node.lie = lie
        await stage.submit(*(stage.transfer(f"k{n}") for n in range(5)))
        records = await stage.until_done(*(f"k{n}" for n in range(5)))
        assert node.told > 0
        assert max(map(offered, records)) <= 3 * SMALL


@pytest.mark.parametrize("lie", [dear, greedy])
async def test_first_word_of_the_only_node_stays_far_from_the_cap(make_anvil: Any, lie: Any) -> None:
    """No history yet: a node alone is believed an eighth of the cap."""
    anvil = make_anvil()
    async with liar(anvil.url) as node:
        node.lie = lie
        async with staged(anvil, node) as stage:
            await stage.submit(stage.transfer("first"))
            [record] = await stage.until_done("first")
            assert offered(record) < NETWORK.max_fee // 2


@pytest.mark.parametrize("lie", [dear, greedy])
async def test_second_node_that_knows_better_is_believed(make_anvil: Any, lie: Any) -> None:
    anvil = make_anvil()
    async with liar(anvil.url) as node, liar(anvil.url) as other:
        node.lie = lie
        async with staged(anvil, node, other) as stage:
            await stage.submit(stage.transfer("a"))
            [record] = await stage.until_done("a")
            assert node.told > 0
            assert offered(record) < SMALL


async def test_jump_that_two_nodes_tell_is_paid_at_once(make_anvil: Any) -> None:
    machine = make_anvil()
    async with liar(machine.url) as node, liar(machine.url) as other, staged(machine, node, other) as stage:
        await stage.submit(stage.transfer("before"))
        await stage.until_done("before")
        machine.rpc("anvil_setNextBlockBaseFeePerGas", hex(100 * GWEI))
        machine.rpc("evm_mine")
        await stage.submit(stage.transfer("after"))
        [record] = await stage.until_done("after")
        assert offered(record) > 80 * GWEI
        assert len(record.attempts) == 1


async def test_node_that_calls_every_price_too_low_is_not_followed_to_the_cap(make_anvil: Any) -> None:
    def too_low(method: str, _: Any, answer: dict[str, Any]) -> dict[str, Any]:
        if method == "eth_sendRawTransaction":
            return {"error": {"code": -32000, "message": "replacement transaction underpriced"}}
        return answer

    anvil = make_anvil("--no-mining")
    steep = EvmNetwork(finality=1, max_fee=500 * GWEI, fees_fresh_s=0.0, bump_percent=300)
    async with liar(anvil.url) as node, staged(anvil, node, network=steep) as stage:
        node.lie = too_low
        await stage.submit(stage.transfer("a"))
        assert stage.worker is not None
        priced_out = stage.worker.metrics.priced_out.labels(stage.lane_id)._value
        await until(lambda: priced_out.get() > 0, 30.0, what="no better price is offered, and it is said")
        record = await stage.record("a")
        assert offered(record) <= 5 * SMALL
