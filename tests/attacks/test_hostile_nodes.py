"""Whatever a node answers to any question: no lane breaks, other intents settle, nothing is settled wrongly."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.attacks.hostile import BytesNode, evm_pass, hostile, near_pass, rpc_of, run
from tests.runtime.stage import Stage, metric
from tests.waiting import until
from txmanager.chains.near import NearChain
from txmanager.core.errors import NoLane
from txmanager.core.states import LaneState
from txmanager.rpc.errors import BadAnswer, RpcError, read_answer, shown
from txmanager.rpc.node import HttpNode
from txmanager.rpc.reading import from_any, on_one

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For longer, and guided by coverage: `python -m tests.attacks.fuzz_nodes` (see there)."""


@FUZZ
@given(st.data())
def test_near_adapter_outlives_every_answer(data: st.DataObject) -> None:
    run(near_pass, lambda n: data.draw(st.integers(0, n - 1)))


@FUZZ
@given(st.data())
def test_evm_adapter_outlives_every_answer(data: st.DataObject) -> None:
    run(evm_pass, lambda n: data.draw(st.integers(0, n - 1)))


@pytest.mark.parametrize("seed", range(40))
def test_adapters_outlive_what_a_generator_says(seed: int) -> None:
    run(near_pass, random.Random(seed).randrange)
    run(evm_pass, random.Random(seed).randrange)


class Battered(NearChain):
    """A real chain behind a node that answers every third question with something hostile, for a while."""

    left = 0
    rng = random.Random(0)

    def _ask_of(self, rpc: Any) -> None:
        node: HttpNode = rpc.nodes[0]

        async def answer(number: int, method: str, params: Any) -> bytes:
            try:
                told = {"result": await node.call(method, params)}
            except RpcError as error:
                told = {"error": {"code": error.number, "name": error.name, "cause": {"name": error.cause}}}
            cls = type(self)
            if cls.left > 0 and cls.rng.randrange(3) == 0:
                cls.left -= 1
                return hostile(cls.rng.randrange, number, told)
            return orjson.dumps({"jsonrpc": "2.0", "id": number, **told})

        super()._ask_of(rpc_of(BytesNode(answer)))
        self._real = rpc

    async def close(self) -> None:
        await super().close()
        await self._real.close()


@pytest.mark.parametrize("seed", range(3))
async def test_intents_of_a_lane_settle_right_behind_a_hostile_node(lanes: Stage, seed: int) -> None:
    Battered.left, Battered.rng = 60, random.Random(seed)
    running = await lanes.start(kind=Battered, own=False)
    ids = []
    for n in range(1, 7):
        ids += await _submitted(lanes, n)
    await lanes.done(ids, timeout=60)
    assert sorted(lanes.amounts()) == [1, 2, 3, 4, 5, 6]
    view = await lanes.until_lane(LaneState.ACTIVE)
    assert view.epoch == 1, "the lane was never given up"
    assert metric(running.worker, "quarantines_total") == 0
    assert Battered.left < 50, "it was hostile indeed"


async def _submitted(lanes: Stage, n: int) -> Sequence[Any]:
    async def accepted() -> Any:
        try:
            return await lanes.submit(lanes.transfer(f"k{n}", n))
        except NoLane:
            return None

    found: Any = await until(accepted, what="a lane is registered")
    return found


async def test_next_node_is_asked_when_an_answer_cannot_be_read() -> None:
    asked: list[str] = []

    def node(name: str, result: bytes) -> BytesNode:
        async def answer(number: int, method: str, params: Any) -> bytes:
            asked.append(name)
            return b'{"id":%d,"result":%s}' % (number, result)

        return BytesNode(answer, name)

    rpc = rpc_of(node("bad", b"[1]"), node("good", b'{"a":7}'))
    assert await from_any(rpc, lambda ask: _seven(ask("m", []))) == 7
    assert await on_one(rpc, lambda one: _seven(one.call("m", []))) == 7
    assert asked == ["bad", "bad", "good", "bad", "good"]
    with pytest.raises(BadAnswer, match="TypeError"):
        await on_one(rpc_of(node("bad", b"[1]")), lambda one: _seven(one.call("m", [])))


async def _seven(asking: Any) -> Any:
    return (await asking)["a"]


def test_showing_what_a_node_said_never_fails_and_is_short() -> None:
    value: Any = 1
    for _ in range(5_000):
        value = [value]
    for said in (value, "x" * 10**6, {"a": [0] * 10**5}, 10**5_000, None, b"\xff"):
        assert len(shown(said)) <= 300
        assert len(str(RpcError({"message": said, "data": said, "cause": said, "code": said}))) < 1_000
    with pytest.raises(BadAnswer, match="KeyError"):
        read_answer(lambda told: {}[told[0]], ["deep"])
