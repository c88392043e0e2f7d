"""Random actions and faults: no yocto appears or vanishes, nonces grow, nothing runs twice or too late."""

from __future__ import annotations

import contextlib
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.devnet.world import GENESIS, NEAR, World, call
from txmanager.devnet import InvalidTx, key_pair
from txmanager.devnet.contracts import CODE
from txmanager.devnet.model import (
    AddKey,
    CreateAccount,
    Delegate,
    DeleteAccount,
    DeleteKey,
    DeployContract,
    Permission,
    Transfer,
    TransferToGasKey,
    WithdrawFromGasKey,
)

VALIDITY = 12
USERS = [user.account_id for user in GENESIS.users]
KEYS = [key_pair(3, f"k{index}").public_key for index in range(4)]
NAMES = [*USERS, "near", "ft.near", "counter.near", "x.near", f"s.{USERS[0]}", "ab" * 32, "nobody.near"]

money = st.sampled_from([0, 1, NEAR, 10**6 * NEAR, 10**31])
names, keys = st.sampled_from(NAMES), st.sampled_from(KEYS)
gas = st.sampled_from([1, 10**12, 30 * 10**12, 300 * 10**12])


def _args(**told):
    return json.dumps(told).encode()


calls = st.one_of(
    st.builds(lambda n, g, d: call(n, b"{}", g, d), st.sampled_from(["increment", "fail", "nothing"]), gas, money),
    st.builds(
        lambda n, k, g, d: call("create_account", _args(new_account_id=n, new_public_key=k), g, d),
        names,
        keys,
        gas,
        money,
    ),
    st.builds(lambda n, g, d: call("storage_deposit", _args(account_id=n), g, d), names, gas, money),
    st.builds(lambda n, g: call("ft_transfer", _args(receiver_id=n, amount="5"), g, 1), names, gas),
)
permissions = st.one_of(st.none(), st.builds(Permission, names, st.just(("increment",)), st.one_of(st.none(), money)))
plain = st.one_of(
    st.builds(Transfer, money),
    calls,
    st.just(CreateAccount()),
    st.builds(AddKey, keys, permissions, st.one_of(st.none(), st.integers(0, 3))),
    st.builds(DeleteKey, keys),
    st.builds(DeleteAccount, names),
    st.builds(TransferToGasKey, keys, money),
    st.builds(WithdrawFromGasKey, keys, money),
    st.builds(DeployContract, st.sampled_from([*CODE.values(), b"junk"])),
)
sent = st.tuples(
    st.just("send"),
    st.sampled_from(NAMES),
    names,
    st.lists(plain, min_size=1, max_size=3),
    st.integers(-2, 6),
    st.one_of(st.none(), st.integers(0, 3)),
    st.booleans(),
)
delegated = st.tuples(st.just("relay"), st.sampled_from(USERS), st.sampled_from(USERS), names, plain, st.integers(0, 3))
fault = st.tuples(
    st.just("fault"),
    st.sampled_from(["drop", "delay", "reorder", "expired", "congestion", "stall", "lag", "disagree", "forget"]),
    st.integers(1, 5),
)
steps = st.lists(
    st.one_of(
        sent,
        sent,
        delegated,
        fault,
        st.tuples(st.just("blocks"), st.integers(1, 6)),
        st.tuples(st.just("reorg"), st.integers(1, 2)),
        st.tuples(st.just("foreign"), st.sampled_from(USERS)),
    ),
    max_size=25,
)


def _keys_of(world, account_id):
    account = world.account(account_id)
    return [*(account.keys if account else ()), KEYS[0]]


def _submit(world, tx, validated):
    with contextlib.suppress(InvalidTx):
        (world.network.send if validated else world.network.submit)(tx)


def _step(world, step):
    match step:
        case ("send", signer, receiver, actions, ahead, lane, validated):
            public_key = _keys_of(world, signer)[ahead % 2 - 1]
            key = world.access_key(signer, public_key)
            nonce = (key.nonce if key and lane is None else (world.network.head().height - 1) * 10**6) + ahead
            tx = world.tx(
                signer, receiver, *actions, public_key=public_key, nonce=max(nonce, 0), nonce_index=lane, version=1
            )
            _submit(world, tx, validated)
        case ("relay", relayer, sender, receiver, action, ahead):
            public_key = world.key(sender)
            key = world.access_key(sender, public_key)
            height = world.network.head().height
            inner = Delegate(sender, receiver, (action,), (key.nonce if key else 0) + ahead, height + 3, public_key)
            if world.access_key(relayer, world.key(relayer)):
                _submit(world, world.tx(relayer, sender, inner), False)
        case ("fault", kind, count):
            world.network.set_fault(kind, count=count, blocks=count, ms=500.0, probability=0.7)
        case ("blocks", count):
            world.network.tick(world.network.now + count * world.network.config.block_ms)
        case ("reorg", depth):
            world.network.reorg(depth)
        case ("foreign", account_id):
            if world.access_key(account_id, world.key(account_id)):
                world.network.foreign_use(account_id, world.key(account_id))


def _added(chain, tx, since):
    """Whether the key was made anew since: it then starts over, below what its namesake had used."""
    return any(
        outcome.height >= since and not outcome.failed and outcome.receipt.receiver_id == tx.signer_id
        for record in chain.records.values()
        for outcome in record.outcomes[1:]
        for action in outcome.receipt.actions
        if isinstance(action, AddKey) and action.public_key == tx.public_key
    )


@settings(max_examples=250, deadline=None)
@given(steps, st.integers(0, 2**32))
def test_whatever_happens_supply_is_conserved_and_history_is_sound(script, seed):
    world = World(seed=seed, delay_ms=(0.0, 700.0), validity=VALIDITY, loss=0.1)
    chain = world.network.chain
    finals: dict[int, tuple[bytes, list[bytes]]] = {}
    for step in [*script, ("blocks", 15)]:
        _step(world, step)
        assert world.conserved(), step
        for block in chain.blocks[:-2]:
            told = (block.hash, [tx.hash for tx in block.txs])
            assert finals.setdefault(block.height, told) == told, "a final block changed"

    included = [tx for block in chain.blocks for tx in block.txs]
    assert len({tx.hash for tx in included}) == len(included), "a transaction was included twice"
    assert {tx.hash for tx in included} == set(chain.records)
    by_hash = {block.hash: block for block in chain.blocks}
    last: dict[object, tuple[int, int]] = {}
    for block in chain.blocks:
        for tx in block.txs:
            assert block.prev_height <= by_hash[tx.block_hash].height + VALIDITY, "included outside its validity"
            nonce, since = last.get(tx.lane, (-1, 0))
            assert tx.nonce > nonce or _added(chain, tx, since), "a nonce did not grow"
            last[tx.lane] = (tx.nonce, block.height)
    for record in chain.records.values():
        ids = [outcome.id for outcome in record.outcomes]
        assert len(set(ids)) == len(ids), "a receipt ran twice"
        assert record.open >= 0
        assert record.open_refunds >= 0
        assert all(outcome.tokens_burnt >= 0 for outcome in record.outcomes)
    assert all(a.amount >= 0 for key, a in chain.state.head.items() if len(key) == 1)
