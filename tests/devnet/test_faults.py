"""Each fault does what it says, as often as it says, to whom it says, and to nobody else."""

from __future__ import annotations

import random

import pytest

from tests.devnet.world import ALICE, BOB, World, call
from txmanager.devnet import Fault, Faults, InvalidTx
from txmanager.devnet.faults import KINDS
from txmanager.devnet.model import Transfer


def submit(world, signer=ALICE, **more):
    tx = world.tx(signer, BOB, Transfer(1), **more)
    world.network.submit(tx)
    return tx


def test_drop_loses_the_next_n_and_then_no_more():
    world = World()
    world.network.set_fault("drop", count=2)
    txs = [submit(world) for _ in range(3)]
    world.network.advance(5)
    assert [world.landed(tx) for tx in txs] == [False, False, True]
    assert world.network.faults.active == []


def test_drop_also_loses_what_a_validating_send_accepted():
    world = World()
    world.network.set_fault("drop", count=1)
    tx = world.tx(ALICE, BOB, Transfer(1))
    assert world.network.send(tx) == tx.hash
    world.network.advance(5)
    assert not world.landed(tx)


def test_a_fault_for_one_signer_and_node_spares_the_others():
    world = World()
    world.network.set_fault("drop", signer_id=ALICE, node=1)
    spared = submit(world)
    other = world.tx(BOB, ALICE, Transfer(1))
    world.network.submit(other, node=1)
    lost = world.tx(ALICE, BOB, Transfer(1))
    world.network.submit(lost, node=1)
    world.network.advance(5)
    assert (world.landed(spared), world.landed(other), world.landed(lost)) == (True, True, False)


def test_delay_holds_a_transaction_back_for_its_time():
    world = World(block_ms=100.0)
    world.network.set_fault("delay", ms=450.0, count=1)
    tx = submit(world)
    world.network.tick(400.0)
    assert not world.landed(tx)
    world.network.tick(500.0)
    assert world.landed(tx)


def test_reorder_makes_successors_overtake():
    world = World(seed=5, block_ms=100.0)
    world.network.set_fault("reorder", ms=1000.0)
    txs = [submit(world) for _ in range(30)]
    world.network.advance(20)
    assert 0 < sum(world.landed(tx) for tx in txs) < 30


def test_stall_makes_no_blocks_for_a_while():
    world = World(block_ms=100.0)
    world.network.set_fault("stall", count=5)
    assert world.network.tick(500.0) == []
    assert len(world.network.tick(700.0)) == 2


def test_congestion_refuses_validated_sends_and_silently_drops_the_rest():
    world = World()
    world.network.set_fault("congestion", level=0.95)
    with pytest.raises(InvalidTx) as refusal:
        world.network.send(world.tx(ALICE, BOB, Transfer(1)))
    assert refusal.value.error == {"ShardCongested": {"shard_id": 0, "congestion_level": 0.95}}
    tx = submit(world)
    world.network.faults.clear(kind="congestion")
    world.network.advance(5)
    assert not world.landed(tx)


def test_light_congestion_refuses_nothing():
    world = World()
    world.network.set_fault("congestion", level=0.5)
    assert world.network.send(world.tx(ALICE, BOB, Transfer(1)))


def test_a_real_backlog_congests_too():
    world = World(receipt_gas_limit=1)
    for _ in range(200):
        world.network.submit(world.tx(ALICE, "counter.near", call("increment", gas=300 * 10**12)))
    world.network.advance(1)
    with pytest.raises(InvalidTx, match="ShardCongested"):
        world.network.send(world.tx(BOB, ALICE, Transfer(1)))


def test_expired_treats_a_fresh_base_as_old():
    world = World()
    world.network.set_fault("expired", count=2)
    with pytest.raises(InvalidTx, match="Expired"):
        world.network.send(world.tx(ALICE, BOB, Transfer(1)))
    tx = submit(world)
    world.network.advance(3)
    assert not world.landed(tx)
    assert world.network.send(world.tx(ALICE, BOB, Transfer(1)))


def test_lost_links_kill_by_overtaking_without_any_fault():
    world = World(seed=2, loss=0.5, producers=4)
    txs = []
    for _ in range(60):
        txs.append(submit(world))
        world.network.advance(1)
    world.network.advance(10)
    assert 0 < sum(world.landed(tx) for tx in txs) < 60


def test_probability_strikes_about_as_often_and_the_same_way_for_a_seed():
    def hits(seed):
        faults = Faults(random.Random(seed))
        faults.set(Fault("drop", probability=0.3))
        return [faults.draw("drop") is not None for _ in range(1000)]

    assert 200 < sum(hits(1)) < 400
    assert hits(1) == hits(1)
    assert hits(1) != hits(2)


def test_transport_faults_are_drawn_by_method_and_node():
    faults = Faults(random.Random(0))
    faults.set(Fault("rate_limit", method="query", node=1))
    faults.set(Fault("untracked"))
    faults.set(Fault("timeout", method="send_tx", count=1))
    assert faults.before("query", 0) is None
    assert faults.before("query", 1).kind == "rate_limit"
    assert faults.before("tx", 0).kind == "untracked"
    assert faults.before("block", 0) is None
    assert faults.after("query", 0) is None
    assert faults.after("send_tx", 0).kind == "timeout"
    assert faults.after("send_tx", 0) is None


def test_faults_are_cleared_by_id_by_kind_and_all():
    faults = Faults(random.Random(0))
    first, second = faults.set(Fault("drop")), faults.set(Fault("drop"))
    faults.set(Fault("stall"))
    assert faults.clear(fault_id=first.id) == 1
    assert faults.clear(kind="drop") == 1
    assert second not in faults.active
    assert faults.clear() == 1


@pytest.mark.parametrize(
    "told",
    [
        {"kind": "nonsense"},
        {},
        [],
        {"kind": "drop", "count": 0},
        {"kind": "drop", "probability": 2},
        {"kind": "drop", "probability": "1"},
        {"kind": "drop", "count": True},
        {"kind": "delay", "ms": -1},
        {"kind": "http_error", "status": 200},
        {"kind": "drop", "surprise": 1},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(told):
    with pytest.raises(ValueError):
        Fault.parse(told)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_can_be_told_over_json(kind):
    assert Fault.parse({"kind": kind, "count": 3, "node": None}).describe()["kind"] == kind
