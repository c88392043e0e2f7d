"""Nonces: what a node refuses, what a producer drops without a word, and how overtaking kills."""

from __future__ import annotations

import pytest

from tests.devnet.world import ALICE, BOB, World
from txmanager.devnet import InvalidTx, key_pair, pool
from txmanager.devnet.model import AddKey, DeleteKey, Transfer, TransferToGasKey


def test_gaps_are_allowed_and_the_key_takes_the_highest_nonce():
    world = World()
    start = world.nonce(ALICE, world.key(ALICE))
    world.run(world.tx(ALICE, BOB, Transfer(1), nonce=start + 500))
    assert world.nonce(ALICE, world.key(ALICE)) == start + 500


@pytest.mark.parametrize("behind", [0, 1, 1000])
def test_a_nonce_not_above_the_keys_is_refused_with_both_numbers(behind):
    world = World()
    start = world.nonce(ALICE, world.key(ALICE))
    tx = world.tx(ALICE, BOB, Transfer(1), nonce=start - behind)
    with pytest.raises(InvalidTx) as refusal:
        world.network.send(tx)
    assert refusal.value.error == {"InvalidNonce": {"tx_nonce": start - behind, "ak_nonce": start}}


def test_broadcast_async_takes_anything_and_a_stale_nonce_simply_never_lands():
    world = World()
    tx = world.tx(ALICE, BOB, Transfer(1), nonce=world.nonce(ALICE, world.key(ALICE)))
    assert world.network.submit(tx) == tx.hash
    world.network.advance(10)
    assert not world.landed(tx)


def test_strict_mode_wants_exactly_the_next_nonce():
    world = World()
    start = world.nonce(ALICE, world.key(ALICE))
    with pytest.raises(InvalidTx, match="InvalidNonce"):
        world.network.send(world.tx(ALICE, BOB, Transfer(1), nonce=start + 2, strict=True, version=1))
    assert world.run(world.tx(ALICE, BOB, Transfer(1), nonce=start + 1, strict=True, version=1))


def test_a_nonce_beyond_the_upper_bound_passes_rpc_and_is_dropped_by_the_producer():
    world = World()
    bound = world.network.head().height * 1_000_000
    tx = world.tx(ALICE, BOB, Transfer(1), nonce=bound + 50_000_000)
    world.network.send(tx)  # RPC does not look
    world.network.advance(10)
    assert not world.landed(tx)


def test_a_new_key_starts_below_its_block_whatever_add_key_says():
    world = World()
    public_key = key_pair(1, "new").public_key
    record = world.do(ALICE, ALICE, AddKey(public_key, nonce=77))
    key = world.access_key(ALICE, public_key)
    assert key is not None
    assert key.nonce == (record.outcomes[1].height - 1) * 1_000_000


def test_a_full_pool_drops_without_a_word(monkeypatch):
    world = World()
    monkeypatch.setattr(pool, "MAX_BYTES", 600)
    txs = [world.tx(ALICE, BOB, Transfer(1)) for _ in range(3)]  # of 256 bytes each
    for tx in txs:
        world.network.submit(tx)
    world.network.advance(5)
    assert [world.landed(tx) for tx in txs] == [True, True, False]


def test_the_same_transaction_sent_often_lands_once():
    world = World()
    tx = world.tx(ALICE, BOB, Transfer(5))
    before = world.balance(BOB)
    for _ in range(5):
        world.network.submit(tx)
        world.network.advance(2)
    assert world.balance(BOB) == before + 5
    world.network.send(tx)  # a validating send of what has landed is no error either


def test_a_key_made_anew_in_the_same_block_does_not_let_its_last_transaction_land_again():
    """The new key starts below the nonce its namesake has just used: only the hash tells them apart."""
    world = World(producers=1)
    key, other = world.key(ALICE, 0), world.key(ALICE, 1)
    height = world.network.head().height + 1
    tx = world.tx(ALICE, BOB, Transfer(5), public_key=key, nonce=(height - 1) * 1_000_000 + 7)
    world.network.submit(tx)
    world.network.submit(world.tx(ALICE, ALICE, DeleteKey(key), AddKey(key), public_key=other))
    world.network.advance(1)
    assert world.nonce(ALICE, key) == (height - 1) * 1_000_000
    before = world.balance(BOB)
    world.network.submit(tx)
    world.network.advance(5)
    assert world.balance(BOB) == before + 5  # once, from the first time


def test_one_key_puts_many_transactions_into_one_block_in_nonce_order():
    world = World()
    txs = [world.tx(ALICE, BOB, Transfer(1)) for _ in range(50)]
    for tx in reversed(txs):
        world.network.submit(tx)
    [block] = world.network.advance(1)
    assert [tx.nonce for tx in block.txs] == [tx.nonce for tx in txs]


def test_pools_go_round_the_keys_so_that_none_starves():
    world = World()
    first, second = world.key(ALICE, 0), world.key(ALICE, 1)
    for _ in range(3):
        world.network.submit(world.tx(ALICE, BOB, Transfer(1), public_key=first))
    world.network.submit(world.tx(ALICE, BOB, Transfer(1), public_key=second))
    [block] = world.network.advance(1)
    assert [tx.public_key for tx in block.txs] == [first, second, first, first]


def test_a_successor_that_arrives_first_kills_its_predecessor():
    world = World(producers=1)
    first, second = (world.tx(ALICE, BOB, Transfer(1)) for _ in range(2))
    world.network.submit(second)
    world.network.advance(1)
    world.network.submit(first)
    world.network.advance(10)
    assert world.landed(second)
    assert not world.landed(first)


def test_overtaking_happens_by_itself_when_deliveries_take_their_time():
    """Sent in order at one node, some are still overtaken: each producer hears of them when it does."""
    world = World(seed=3, delay_ms=(0.0, 400.0), block_ms=100.0)
    txs = []
    for step in range(200):
        tx = world.tx(ALICE, BOB, Transfer(1), block_hash=world.genesis.hash)
        world.network.submit(tx)
        txs.append(tx)
        world.network.tick(step * 20.0)
    world.network.advance(50)
    dead = [tx for tx in txs if not world.landed(tx)]
    assert 0 < len(dead) < len(txs)


def test_gas_key_lanes_are_independent_of_each_other():
    world = World()
    public_key = key_pair(1, "gas").public_key
    world.do(ALICE, ALICE, AddKey(public_key, None, num_nonces=3))
    world.do(ALICE, ALICE, TransferToGasKey(public_key, 10**24))
    high = world.tx(ALICE, BOB, Transfer(1), public_key=public_key, nonce_index=2, version=1)
    low = world.tx(ALICE, BOB, Transfer(1), public_key=public_key, nonce_index=0, version=1)
    world.run(high)
    world.run(low)
    assert world.landed(high)
    assert world.landed(low)


@pytest.mark.parametrize(("gas_key", "index"), [(True, None), (True, 3), (False, 0)])
def test_a_nonce_index_must_fit_its_key(gas_key, index):
    world = World()
    public_key = key_pair(1, "gas").public_key
    world.do(ALICE, ALICE, AddKey(public_key, None, num_nonces=3 if gas_key else None))
    tx = world.tx(ALICE, BOB, Transfer(1), public_key=public_key, nonce=10**17, nonce_index=index, version=1)
    with pytest.raises(InvalidTx) as refusal:
        world.network.send(tx)
    told = {"tx_nonce_index": index, "num_nonces": 3 if gas_key else 0}
    assert refusal.value.error == {"InvalidNonceIndex": told}


def test_foreign_use_of_a_key_is_a_real_transaction_that_raises_its_nonce():
    world = World()
    key = world.key(ALICE)
    start = world.nonce(ALICE, key)
    mine = world.tx(ALICE, BOB, Transfer(1))
    [foreign] = world.network.foreign_use(ALICE, key, by=3)
    world.network.advance(1)
    assert world.network.status(foreign) is not None
    assert world.nonce(ALICE, key) == start + 3
    with pytest.raises(InvalidTx, match="InvalidNonce"):
        world.network.send(mine)
