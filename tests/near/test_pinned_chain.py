"""A network that names its chain: a node of another one is refused before anything is signed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.near.world import ALICE, BOB, NearWorld, lane_of, transfer
from txmanager.chains.near import NearChain, NearNetwork
from txmanager.chains.near.family import FAMILY
from txmanager.chains.near.limits import most_over_http
from txmanager.chains.near.settings import NearNetworkSettings, NearPoolSettings
from txmanager.core.chain import Prepared
from txmanager.core.errors import InvalidInput, Misconfigured, Unavailable
from txmanager.core.models import Purpose
from txmanager.rpc import ConnectionFailed, InProcessNode, InProcessRpc

GENESIS = "6HKKwKVspoH45uorXYhEh2YUxyuFMFJzWobEiZomR8tQ"
RIGHT = {"chain_id": "mainnet", "genesis_hash": GENESIS}


class Pinned:
    """Nodes that tell of themselves what the test says, and count what else they are asked."""

    def __init__(self, *told: dict[str, Any] | None, **pins: str) -> None:
        self.world = NearWorld()
        self.told = list(told)
        self.asked: list[str] = []
        nodes = [InProcessNode(self._handler(n), f"node{n}") for n in range(len(told))]
        self.lane, signer = lane_of(ALICE)
        settings = replace(NearNetwork(86_400, 20_000, head_fresh_s=0.0, head_max_age_s=0.0), **(pins or RIGHT))
        self.chain = NearChain(
            "localnet", (), {self.lane: signer}, rpc=InProcessRpc(nodes), settings=settings, agreement=1
        )

    def _handler(self, number: int):
        honest = self.world.node(0, f"node{number}")

        async def handle(method: str, params: Any) -> Any:
            if method != "status":
                self.asked.append(f"{number}:{method}")
                return await honest(method, params)
            told = self.told[number]
            if told is None:
                raise ConnectionFailed("gone")
            answer = await honest(method, params)
            return {"result": {**answer["result"], **told}}

        return handle


@pytest.mark.parametrize(
    "wrong",
    [{**RIGHT, "chain_id": "testnet"}, {**RIGHT, "genesis_hash": "1" * 32}, {"chain_id": None}, {"chain_id": 5}],
)
async def test_a_node_of_another_chain_is_refused_before_anything_is_asked_or_signed(wrong):
    stage = Pinned(wrong)
    right = Pinned(RIGHT)
    [ready] = await right.chain.prepare(right.lane, [transfer("k")])
    assert isinstance(ready, Prepared)
    for use in (
        stage.chain.nonce(stage.lane),
        stage.chain.prepare(stage.lane, [transfer("k")]),
        stage.chain.sign(stage.lane, [ready], 1, Purpose.FIRST, 0),
    ):
        with pytest.raises(Misconfigured, match="chain_id or genesis_hash"):
            await use
    assert stage.asked == []


async def test_a_no_op_is_not_signed_for_another_chain_either():
    stage = Pinned(RIGHT)
    await stage.chain.nonce(stage.lane)
    stage.chain._same_chain.clear()
    stage.told[0] = {**RIGHT, "chain_id": "testnet"}
    with pytest.raises(Misconfigured):
        await stage.chain.noop(stage.lane, 1, [], 0)


async def test_beside_a_right_node_a_wrong_one_is_left_out():
    stage = Pinned(RIGHT, {**RIGHT, "chain_id": "testnet"})
    await stage.chain.nonce(stage.lane)
    assert [node.ready for node in stage.chain.rpc.nodes] == [True, False]
    assert all(asked.startswith("0:") for asked in stage.asked)


async def test_a_node_that_does_not_say_is_asked_again_and_nothing_is_signed_meanwhile():
    stage = Pinned(RIGHT, None)
    with pytest.raises(Unavailable, match="node1 does not say"):
        await stage.chain.prepare(stage.lane, [transfer("k")])
    stage.told[1] = RIGHT
    [ready] = await stage.chain.prepare(stage.lane, [transfer("k")])
    assert isinstance(ready, Prepared)


async def test_one_of_the_two_names_is_enough_and_without_any_nobody_is_asked():
    for pins in ({"chain_id": "mainnet"}, {"genesis_hash": GENESIS}):
        await Pinned(RIGHT, **pins).chain.nonce(lane_of(ALICE)[0])
        with pytest.raises(Misconfigured):
            await Pinned({"chain_id": "x", "genesis_hash": "y"}, **pins).chain.nonce(lane_of(ALICE)[0])
    world = NearWorld()
    await world.chain.nonce(world.lane)
    assert "status" not in world.calls


def network(**more: Any) -> NearNetworkSettings:
    return NearNetworkSettings.model_validate({"chain": "near", "rpc": [{"url": "https://rpc.example"}], **more})


@pytest.mark.parametrize(
    ("pins", "told", "level"),
    [
        ({}, {"chain_id": "localnet"}, "ok"),
        ({}, {"chain_id": "test-chain-Xy1"}, "ok"),
        ({}, {"chain_id": "mainnet"}, "warn"),
        ({}, {"chain_id": "statelessnet"}, "warn"),
        ({"chain_id": "mainnet"}, {"chain_id": "mainnet"}, "ok"),
        ({"chain_id": "mainnet"}, {"chain_id": "testnet"}, "fail"),
        ({"genesis_hash": GENESIS}, {"chain_id": "mainnet", "genesis_hash": GENESIS}, "ok"),
        ({"genesis_hash": GENESIS}, {"chain_id": "mainnet", "genesis_hash": "other"}, "fail"),
    ],
)
def test_doctor_warns_of_a_missing_pin_and_fails_a_wrong_one(pins, told, level):
    assert FAMILY.probe.describe(network(**pins), told).level == level


def test_settings_reach_the_adapter_and_the_smallest_endpoint_limits_an_intent():
    rpc = [{"url": "https://a.example", "max_request_bytes": 100_000}, {"url": "https://b.example"}]
    told = network(rpc=rpc, chain_id="mainnet", genesis_hash=GENESIS)
    chain = FAMILY.open_chain("mainnet", told, {})
    assert isinstance(chain, NearChain)
    assert (chain.settings.chain_id, chain.settings.genesis_hash) == ("mainnet", GENESIS)
    assert chain.settings.max_transaction_bytes == most_over_http(100_000)
    pool = NearPoolSettings.model_validate({"network": "mainnet", "account": ALICE.account_id})
    payload = {"contract_id": BOB.account_id, "method_name": "m", "args_base64": "AAAA" * 25_000}
    with pytest.raises(InvalidInput, match=f"the limit is {most_over_http(100_000)}"):
        FAMILY.reading(told, pool)("near.function_call", payload)
    FAMILY.reading(network(), pool)("near.function_call", payload)
