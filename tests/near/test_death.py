"""Proof of death: given for what can never land, and never for anything less than a proof."""

from __future__ import annotations

import pytest

from tests.near.world import ALICE, NearWorld, intent
from txmanager.chains.near import NearPolicy
from txmanager.core.chain import Proof
from txmanager.rpc import TimedOut


async def overtaken(world: NearWorld):
    """(dead, landed): two transactions of which only the second was ever sent."""
    _, [dead, landed] = await world.signed(2)
    await world.chain.broadcast(world.lane, [landed])
    world.network.advance(4)
    return dead, landed


async def test_an_overtaken_transaction_is_proven_dead_and_the_one_that_overtook_it_is_not():
    world = NearWorld()
    dead, landed = await overtaken(world)
    proof, alive = await world.chain.prove_dead(world.lane, [dead, landed])
    assert isinstance(proof, Proof)
    assert proof.cause == "overtaken"
    assert proof.evidence["by"] == "node"
    assert int(proof.evidence["final_nonce"]) >= dead.nonce
    assert alive is None


async def test_nonce_is_read_before_the_transaction_is_looked_up():
    world = NearWorld()
    dead, _ = await overtaken(world)
    world.calls.clear()
    await world.chain.prove_dead(world.lane, [dead])
    assert world.calls == ["status", "query", "tx", "status"]


async def test_not_yet_final_overtaking_proves_nothing():
    world = NearWorld()
    _, [first, second] = await world.signed(2)
    await world.chain.broadcast(world.lane, [second])
    world.network.advance(1)
    assert await world.chain.prove_dead(world.lane, [first]) == [None]


async def test_unknown_transaction_alone_proves_nothing():
    world = NearWorld()
    _, [unsent] = await world.signed(1)
    world.network.advance(50)
    assert await world.chain.prove_dead(world.lane, [unsent]) == [None]


@pytest.mark.parametrize("beyond", [0, 1])
async def test_an_expired_transaction_is_dead_only_when_the_final_height_is_beyond_its_validity(beyond):
    world = NearWorld(validity=20)
    _, [unsent] = await world.signed(1)
    lag = world.network.config.finality_lag
    world.network.advance(unsent.base_height + 20 + beyond + lag - world.network.head().height)
    [proof] = await world.chain.prove_dead(world.lane, [unsent])
    assert (proof is not None) == bool(beyond)
    # And the chain agrees: until then it still takes the bytes.
    assert world.network.final().height == unsent.valid_until + beyond
    if proof:
        assert proof.cause == "expired"


async def test_a_time_out_proves_nothing():
    world = NearWorld()
    dead, _ = await overtaken(world)
    honest = world.node(0)

    async def slow(method, params):
        if method in ("tx", "chunk"):
            raise TimedOut("no answer")
        return await honest(method, params)

    async def slower(method, params):
        if method in ("tx", "chunk"):
            return {"error": {"name": "HANDLER_ERROR", "cause": {"name": "TIMEOUT_ERROR"}, "data": "Timeout"}}
        return await honest(method, params)

    for handler in (slow, slower):
        world.see((handler, True, False))
        assert await world.chain.prove_dead(world.lane, [dead]) == [None]
    world.see((honest, True, False))
    assert await world.chain.prove_dead(world.lane, [dead]) != [None]


async def test_a_node_that_does_not_track_the_shard_proves_nothing():
    world = NearWorld(scan_blocks=0)
    dead, _ = await overtaken(world)
    honest = world.node(0)

    async def elsewhere(method, params):
        if method == "tx":
            return {"error": {"name": "HANDLER_ERROR", "cause": {"name": "DOES_NOT_TRACK_SHARD"}}}
        return await honest(method, params)

    world.see((elsewhere, True, False))
    assert await world.chain.prove_dead(world.lane, [dead]) == [None]


async def test_a_lagging_node_never_calls_what_landed_dead():
    world = NearWorld(scan_blocks=0)
    _, attempts = await world.signed(5)
    await world.chain.broadcast(world.lane, attempts)
    world.network.advance(10)
    world.see((world.node(1), True, False))
    for blocks in range(12):
        world.network.faults.clear()
        world.network.set_fault("lag", node=1, blocks=blocks)
        assert await world.chain.prove_dead(world.lane, attempts) == [None] * 5


@pytest.mark.parametrize("fault", [{"kind": "lag", "blocks": 8}, {"kind": "forget", "blocks": 0}])
async def test_a_balancer_marked_direct_by_mistake_never_calls_what_landed_dead(fault):
    """The nonce from a good node, the look-up from one that lags or forgot: together they look like a proof."""
    world = NearWorld(scan_blocks=0)
    _, [landed] = await world.signed(1)
    await world.chain.broadcast(world.lane, [landed])
    world.network.advance(5)
    world.network.set_fault(node=1, **fault)
    good, bad = world.node(0), world.node(1)
    asked: list[str] = []

    async def balancer(method, params):
        asked.append(method)
        return await (bad if "tx" in asked else good)(method, params)

    world.see((balancer, True, False))
    assert await world.chain.prove_dead(world.lane, [landed]) == [None]
    assert asked[:4] == ["status", "query", "tx", "status"]  # refused at the end, not before


async def test_a_node_restored_from_a_younger_snapshot_proves_nothing():
    world = NearWorld(scan_blocks=0)
    dead, _ = await overtaken(world)
    honest = world.node(0)

    def young(changes):
        async def handle(method, params):
            answer = await honest(method, params)
            if method == "status":
                answer["result"]["sync_info"] |= changes
            return answer

        return handle

    for changes in ({"earliest_block_height": dead.base_height + 2}, {"syncing": True}, {"latest_block_height": 1}):
        world.see((young(changes), True, False))
        assert await world.chain.prove_dead(world.lane, [dead]) == [None]


async def test_a_node_that_may_have_collected_the_transaction_proves_nothing():
    world = NearWorld(epoch_blocks=10, scan_blocks=0)
    dead, landed = await overtaken(world)
    assert (await world.chain.prove_dead(world.lane, [dead]))[0] is not None
    world.network.advance(40)
    world.network.set_fault("forget", node=0, blocks=30)
    assert await world.chain.prove_dead(world.lane, [dead, landed]) == [None, None]
    # An archival node forgets nothing, so it may still speak.
    world.network.faults.clear()
    world.see((world.node(0), True, True))
    proof, alive = await world.chain.prove_dead(world.lane, [dead, landed])
    assert proof is not None
    assert alive is None


async def test_behind_a_balancer_the_chunks_prove_what_no_node_may():
    world = NearWorld()
    dead, landed = await overtaken(world)
    nodes, turn = [world.node(0), world.node(1)], 0

    async def balancer(method, params):
        nonlocal turn
        turn += 1
        assert method != "tx", "a balancer's UNKNOWN_TRANSACTION is worth nothing"
        return await nodes[turn % 2](method, params)

    world.see((balancer, False, False))
    proof, alive = await world.chain.prove_dead(world.lane, [dead, landed])
    assert proof is not None
    assert proof.evidence["by"] == "chunks"
    assert alive is None
    # A lagging node among them makes the walk incomplete, so it proves nothing; or complete, so it is right.
    world.network.set_fault("disagree", node=1, blocks=6)
    for _ in range(30):
        world.network.advance(1)
        told, alive = await world.chain.prove_dead(world.lane, [dead, landed])
        assert alive is None
        assert told is None or told.evidence["by"] == "chunks"


async def test_a_walk_that_would_be_too_long_is_not_begun():
    world = NearWorld(scan_blocks=10)
    dead, _ = await overtaken(world)
    world.see((world.node(0), False, False))
    world.network.advance(20)
    world.calls.clear()
    assert await world.chain.prove_dead(world.lane, [dead]) == [None]
    assert "chunk" not in world.calls


@pytest.mark.parametrize("missing", ["chunk", "block"])
async def test_a_walk_that_misses_a_piece_proves_nothing(missing):
    world = NearWorld()
    dead, _ = await overtaken(world)
    honest = world.node(0)

    async def gappy(method, params):
        if method == missing and "finality" not in params:
            return {"error": {"name": "HANDLER_ERROR", "cause": {"name": f"UNKNOWN_{missing.upper()}"}}}
        return await honest(method, params)

    world.see((gappy, False, False))
    assert await world.chain.prove_dead(world.lane, [dead]) == [None]


async def test_chunks_that_are_not_the_ones_asked_for_prove_nothing():
    world = NearWorld()
    dead, landed = await overtaken(world)
    honest = world.node(0)

    async def wrong(method, params):
        answer = await honest(method, params)
        if method == "chunk":
            answer["result"]["header"]["chunk_hash"] = "1" * 32
            answer["result"]["transactions"] = []
        return answer

    world.see((wrong, False, False))
    assert await world.chain.prove_dead(world.lane, [dead, landed]) == [None, None]


async def test_a_deleted_key_proves_nothing_until_the_height_does():
    world = NearWorld(validity=30, policy=NearPolicy(own_account=frozenset({"delete_key"})))
    _, [unsent] = await world.signed(1)
    mine = world.lane.split(":", 3)[3]
    gone = intent(
        "gone",
        "near.transaction",
        {"receiver_id": ALICE.account_id, "actions": [{"type": "delete_key", "public_key": mine}]},
    )
    nonce = unsent.nonce + 1
    from txmanager.core.models import Purpose

    [ready] = await world.chain.prepare(world.lane, [gone])
    [last] = await world.chain.sign(world.lane, [ready], nonce, Purpose.FIRST, 0)
    await world.chain.broadcast(world.lane, [last])
    world.network.advance(6)
    assert await world.chain.prove_dead(world.lane, [unsent, last]) == [None, None]
    world.network.advance(40)
    proof, landed = await world.chain.prove_dead(world.lane, [unsent, last])
    assert proof is not None
    assert proof.cause == "expired"
    assert landed is None


async def test_no_proof_without_any_reachable_node():
    world = NearWorld()
    dead, _ = await overtaken(world)

    async def silent(method, params):
        raise TimedOut("silent")

    world.see((silent, True, False))
    assert await world.chain.prove_dead(world.lane, [dead]) == [None]
