"""Proof of death, rule by rule: whom it asks, in which order, and where exactly each bound lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.near.test_death import overtaken
from tests.near.world import ALICE, Handler, NearWorld, intent
from txmanager.chains.near import NearPolicy
from txmanager.chains.near.death import LOOK_UP_TIMEOUT_S
from txmanager.core.models import Purpose
from txmanager.rpc import TimedOut

NOT_HERE = {"error": {"name": "HANDLER_ERROR", "cause": {"name": "DOES_NOT_TRACK_SHARD"}}}


def changed(handler: Handler, method: str, change: Callable[[Any], Any]) -> Handler:
    """The same node, but for one answer."""

    async def handle(asked: str, params: Any) -> Any:
        answer = await handler(asked, params)
        return change(answer) if asked == method else answer

    return handle


def sync(handler: Handler, **told: Any) -> Handler:
    def change(answer: Any) -> Any:
        answer["result"]["sync_info"] |= told
        return answer

    return changed(handler, "status", change)


async def silent(method: str, params: Any) -> Any:
    raise TimedOut("silent")


# -- whom it asks


async def test_a_node_that_is_direct_answers_after_a_balancer_and_one_that_is_down():
    world = NearWorld(scan_blocks=0)
    dead, _ = await overtaken(world)
    for first in ((world.node(1), False, False), (silent, True, False)):
        world.see(first, (world.node(0), True, False))
        [proof] = await world.chain.prove_dead(world.lane, [dead])
        assert proof is not None
        assert proof.evidence["node"] == "seen1"


async def test_what_one_node_decided_is_not_asked_of_the_next_or_of_the_chunks():
    world = NearWorld()
    dead, landed = await overtaken(world)
    _, [unsent] = await world.signed(1, first=landed.nonce + 1)
    asked: list[str] = []

    async def second(method: str, params: Any) -> Any:
        asked.append(method)
        return await world.node(1)(method, params)

    for attempts in ([dead], [landed], [unsent], [dead, landed, unsent]):
        world.see((world.node(0), True, False), (second, True, False))
        world.calls.clear()
        await world.chain.prove_dead(world.lane, attempts)
        assert asked == []
        assert {"block", "chunk"}.isdisjoint(world.calls)


async def test_a_node_that_is_left_out_is_not_asked():
    world = NearWorld(scan_blocks=0)
    dead, _ = await overtaken(world)
    world.see((world.node(0), True, False))
    world.rpc.nodes[0].leave_out()
    assert await world.chain.prove_dead(world.lane, [dead]) == [None]


async def test_what_a_node_cannot_decide_is_left_to_the_chunks():
    world = NearWorld()
    dead, landed = await overtaken(world)
    world.see((changed(world.node(0), "tx", lambda _: NOT_HERE), True, False))
    proof, alive = await world.chain.prove_dead(world.lane, [dead, landed])
    assert proof is not None
    assert proof.evidence["by"] == "chunks"
    assert alive is None


async def test_a_look_up_gets_the_time_a_node_polls_for_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch):
    world = NearWorld()
    dead, _ = await overtaken(world)
    node = world.rpc.nodes[0]
    call, timeouts = node.call, {}

    async def timed(method: str, params: Any, **more: Any) -> Any:
        timeouts[method] = more["timeout"]
        return await call(method, params, **more)

    monkeypatch.setattr(node, "call", timed)
    await world.chain.prove_dead(world.lane, [dead])
    assert timeouts == {"status": None, "query": None, "tx": LOOK_UP_TIMEOUT_S}


# -- what a node must be


@pytest.mark.parametrize("which", [0, 1])
async def test_a_node_that_catches_up_before_or_after_proves_nothing(which: int):
    world = NearWorld(scan_blocks=0)
    dead, _ = await overtaken(world)
    count = 0

    def change(answer: Any) -> Any:
        nonlocal count
        answer["result"]["sync_info"]["syncing"] = count == which
        count += 1
        return answer

    world.see((changed(world.node(0), "status", change), True, False))
    assert await world.chain.prove_dead(world.lane, [dead]) == [None]
    assert count == 2


@pytest.mark.parametrize(("behind", "proven"), [(0, True), (1, False)])
async def test_a_node_must_have_seen_the_block_that_the_nonce_is_from(behind: int, proven: bool):
    world = NearWorld(scan_blocks=0)
    dead, _ = await overtaken(world)
    head = world.network.final().height - behind
    world.see((sync(world.node(0), latest_block_height=head), True, False))
    [proof] = await world.chain.prove_dead(world.lane, [dead])
    assert (proof is not None) is proven


@pytest.mark.parametrize(("above", "proven"), [(None, True), (1, True), (2, False)])
async def test_a_node_must_have_the_first_block_that_could_hold_it(above: int | None, proven: bool):
    world = NearWorld(scan_blocks=0)
    dead, _ = await overtaken(world)
    earliest = None if above is None else dead.base_height + above
    world.see((sync(world.node(0), earliest_block_height=earliest), True, False))
    [proof] = await world.chain.prove_dead(world.lane, [dead])
    assert (proof is not None) is proven


@pytest.mark.parametrize(("height", "proven"), [(39, True), (40, False)])
async def test_a_node_keeps_four_epochs(height: int, proven: bool):
    world = NearWorld(epoch_blocks=10, scan_blocks=0)
    dead, _ = await overtaken(world)
    world.see((sync(world.node(0), latest_block_height=dead.base_height + height), True, False))
    [proof] = await world.chain.prove_dead(world.lane, [dead])
    assert (proof is not None) is proven


async def test_unknown_of_another_hash_proves_nothing():
    world = NearWorld(scan_blocks=0)
    dead, _ = await overtaken(world)

    def other(answer: Any) -> Any:
        answer["error"]["cause"]["info"]["requested_transaction_hash"] = "another"
        return answer

    world.see((changed(world.node(0), "tx", other), True, False))
    assert await world.chain.prove_dead(world.lane, [dead]) == [None]


# -- the walk over chunks


async def test_a_walk_reaches_as_far_as_it_may_and_begins_at_the_oldest_base():
    world = NearWorld()
    _, [older] = await world.signed(1)
    world.network.advance(5)
    younger, landed = (await world.signed(2, first=older.nonce + 1))[1]
    assert older.base_height < younger.base_height
    await world.chain.broadcast(world.lane, [landed])
    world.network.advance(4)
    apart = world.network.final().height - older.base_height
    for scan_blocks, expected in ((apart, older.base_height), (apart - 1, younger.base_height)):
        world.see((world.node(0), False, False))
        world.chain._prover._scan_blocks = scan_blocks
        proofs = await world.chain.prove_dead(world.lane, [younger, older])
        assert [p and p.evidence["from_height"] for p in proofs] == [
            str(expected),
            str(expected) if expected == older.base_height else None,
        ]


async def test_chunks_prove_nothing_when_the_nonce_is_of_another_block():
    world = NearWorld()
    dead, _ = await overtaken(world)

    def elsewhere(answer: Any) -> Any:
        answer["result"]["block_hash"] = "1" * 32
        return answer

    world.see((changed(world.node(0), "query", elsewhere), False, False))
    assert await world.chain.prove_dead(world.lane, [dead]) == [None]


async def test_chunks_prove_an_expired_one_of_a_deleted_key():
    world = NearWorld(validity=30, policy=NearPolicy(own_account=frozenset({"delete_key"})))
    _, [unsent] = await world.signed(1)
    mine = world.lane.split(":", 3)[3]
    payload = {"receiver_id": ALICE.account_id, "actions": [{"type": "delete_key", "public_key": mine}]}
    [ready] = await world.chain.prepare(world.lane, [intent("gone", "near.transaction", payload)])
    [last] = await world.chain.sign(world.lane, [ready], unsent.nonce + 1, Purpose.FIRST, 0)
    await world.chain.broadcast(world.lane, [last])
    world.network.advance(40)
    world.see((world.node(0), False, False))
    proof, landed = await world.chain.prove_dead(world.lane, [unsent, last])
    assert proof is not None
    assert (proof.cause, proof.evidence["final_nonce"]) == ("expired", None)
    assert landed is None


async def test_what_only_an_archival_node_has_is_told_once():
    world = NearWorld()
    dead, _ = await overtaken(world)
    gone = {"error": {"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_CHUNK"}}}
    world.see((changed(world.node(0), "chunk", lambda _: gone), False, False))
    with capture_logs() as logs:
        for _ in range(3):
            assert await world.chain.prove_dead(world.lane, [dead]) == [None]
    assert [line["attempts"] for line in logs if "archival" in line["event"]] == [[dead.hash]]
