"""Finality, validity, nodes that lag, blocks that are orphaned, and transactions that are forgotten."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.devnet.world import ALICE, BOB, World, call
from txmanager.devnet import InvalidTx, Unknown
from txmanager.devnet.model import Transfer
from txmanager.devnet.status import reached


def test_a_block_is_final_two_blocks_later_and_views_differ_until_then():
    world = World()
    tx = world.tx(ALICE, BOB, Transfer(1))
    world.network.submit(tx)
    world.network.advance(1)
    key = world.key(ALICE)
    assert world.nonce(ALICE, key, "optimistic") == tx.nonce
    assert world.nonce(ALICE, key, "final") < tx.nonce
    world.network.advance(2)
    assert world.network.final().height == world.network.head().height - 2
    assert world.nonce(ALICE, key, "final") == tx.nonce


def test_a_transaction_climbs_the_levels_of_wait_until():
    world = World()
    tx = world.tx(ALICE, BOB, Transfer(1))
    world.network.submit(tx)
    assert world.network.status(tx.hash) is None
    levels = []
    for _ in range(6):
        world.network.advance(1)
        levels.append(world.network.status(tx.hash).level)
    assert levels == ["INCLUDED", "EXECUTED_OPTIMISTIC", "EXECUTED", "EXECUTED", "FINAL", "FINAL"]


def test_a_slow_transaction_is_final_before_it_has_run_and_that_is_not_executed():
    world = World(receipt_gas_limit=1)
    for _ in range(10):
        world.network.submit(world.tx(BOB, "counter.near", call("increment")))
    tx = world.tx(BOB, "counter.near", call("increment"))
    world.network.submit(tx)
    world.network.advance(5)
    level = world.network.status(tx.hash).level
    assert level == "INCLUDED_FINAL"
    assert not reached("EXECUTED_OPTIMISTIC", level)
    assert reached("INCLUDED", level)


def test_old_heights_answer_as_they_did():
    world = World()
    before = world.network.head()
    balance = world.balance(BOB)
    world.do(ALICE, BOB, Transfer(5))
    assert world.network.reader(before)((BOB,)).amount == balance
    assert world.balance(BOB) == balance + 5


def test_a_transaction_expires_when_its_base_is_older_than_the_validity():
    world = World(validity=20)
    base = world.network.final().hash
    world.network.advance(20)
    world.network.send(world.tx(ALICE, BOB, Transfer(1), block_hash=base))
    world.network.advance(1)
    with pytest.raises(InvalidTx) as refusal:
        world.network.send(world.tx(ALICE, BOB, Transfer(1), block_hash=base))
    assert refusal.value.error == "Expired"


def test_a_pool_never_includes_what_expired_while_it_waited():
    world = World(validity=3, producers=1, tx_gas_limit=1)
    base = world.network.final().hash
    txs = [world.tx(ALICE, BOB, Transfer(1), block_hash=base) for _ in range(6)]
    for tx in txs:
        world.network.submit(tx)
    world.network.advance(10)
    landed = [tx for tx in txs if world.landed(tx)]
    last = world.genesis.height + 3 + 1  # included while the block before is within three of the base
    assert 0 < len(landed) < 6
    assert max(world.record(tx).height for tx in landed) == last


def test_an_unknown_base_counts_as_expired():
    world = World()
    with pytest.raises(InvalidTx, match="Expired"):
        world.network.send(world.tx(ALICE, BOB, Transfer(1), block_hash=b"\7" * 32))


def test_a_lagging_node_expires_a_fresh_base_and_does_not_know_what_landed():
    world = World()
    world.network.set_fault("lag", node=1, blocks=4)
    world.network.advance(10)
    fresh = world.tx(ALICE, BOB, Transfer(1), block_hash=world.network.head(0).hash)
    with pytest.raises(InvalidTx, match="Expired"):
        world.network.send(fresh, node=1)
    world.network.send(fresh, node=0)
    world.network.advance(1)
    assert world.network.status(fresh.hash, node=0)
    assert world.network.status(fresh.hash, node=1) is None
    assert world.network.head(0).height - world.network.head(1).height == 4
    with pytest.raises(Unknown):
        world.network.block(world.network.head(0).height, node=1)
    world.network.advance(4)
    assert world.network.status(fresh.hash, node=1)


def test_disagreeing_answers_go_back_in_time():
    world = World()
    world.network.advance(20)
    world.network.set_fault("disagree", node=0, blocks=5)
    heights = [world.network.head(0).height for _ in range(50)]
    assert len(set(heights)) > 2
    assert any(later < earlier for earlier, later in pairwise(heights))
    assert {world.network.head(1).height for _ in range(10)} == {world.network.chain.blocks[-1].height}


def test_forgotten_transactions_are_unknown_though_they_happened():
    world = World()
    tx = world.tx(ALICE, BOB, Transfer(1))
    world.run(tx, blocks=10)
    world.network.set_fault("forget", node=0, blocks=5)
    assert world.network.status(tx.hash, node=0) is None
    assert world.network.status(tx.hash, node=1) is not None


def test_old_blocks_and_their_transactions_are_collected():
    world = World(keep_blocks=100)
    tx = world.tx(ALICE, BOB, Transfer(1))
    world.run(tx)
    world.network.advance(1_200)
    assert world.network.status(tx.hash) is None
    with pytest.raises(Unknown):
        world.network.block(world.genesis.height + 1)
    assert len(world.network.chain.blocks) <= 1_200
    assert world.conserved()


def test_an_orphaned_block_takes_its_effects_back_and_its_transactions_land_again():
    world = World()
    before = world.balance(BOB)
    tx = world.tx(ALICE, BOB, Transfer(5))
    world.network.submit(tx)
    world.network.advance(2)
    orphans = world.network.reorg(2)
    assert [block.height for block in orphans] == [world.genesis.height + 2, world.genesis.height + 1]
    assert not world.landed(tx)
    assert world.balance(BOB) == before
    assert world.conserved()
    world.network.advance(4)
    assert world.balance(BOB) == before + 5
    assert world.record(tx).height == world.genesis.height + 3
    with pytest.raises(Unknown):
        world.network.block(world.genesis.height + 1)


def test_final_blocks_are_never_orphaned():
    world = World()
    world.network.advance(10)
    final = world.network.final().hash
    assert len(world.network.reorg(50)) == 2
    assert world.network.head().hash == final


def test_a_reorg_in_the_middle_of_a_contract_call_is_not_felt():
    world = World()
    plain = World()
    for each in (world, plain):
        args = b'{"new_account_id":"x.near","new_public_key":"%s"}' % each.key(BOB).encode()
        tx = each.tx(ALICE, "near", call("create_account", args, 60 * 10**12, 10**24))
        each.network.submit(tx)
        for _ in range(8):
            each.network.advance(1)
            if each is world:
                each.network.reorg(1)
                each.network.advance(1)
        each.network.advance(5)
        assert each.result(each.record(tx)) == {"SuccessValue": "dHJ1ZQ=="}
        assert each.conserved()
    assert world.balance("x.near") == plain.balance("x.near")


def test_the_same_seed_and_calls_make_the_same_chain():
    def hashes(seed):
        world = World(seed=seed, delay_ms=(0.0, 900.0))
        for step in range(50):
            world.network.submit(world.tx(ALICE, BOB, Transfer(1), block_hash=world.genesis.hash))
            world.network.tick(step * 100.0)
        world.network.advance(5)
        return [[tx.nonce for tx in block.txs] for block in world.network.chain.blocks]

    assert hashes(1) == hashes(1)
    assert hashes(1) != hashes(2)
