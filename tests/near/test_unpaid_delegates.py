"""A delegate that the chain would refuse is refused before we pay for it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.near.world import ALICE, BOB, CAROL, NearWorld, intent, lane_of
from txmanager.chains.near import NearChain, NearNetwork, NearPolicy, PublicKey
from txmanager.chains.near import actions as act
from txmanager.chains.near.delegates import delegate_turn, sender_key
from txmanager.chains.near.transaction import sign_delegate
from txmanager.core.chain import Impossible, Prepared
from txmanager.core.errors import NotSigned
from txmanager.core.models import Intent, Purpose

OLD_HEADS = NearNetwork(86_400, 20_000, head_fresh_s=3_600.0, head_max_age_s=3_600.0)
MARGIN = 10


def user_delegate(world: NearWorld, blocks_left: int = 100, **changes: Any) -> act.SignedDelegate:
    _, signer = lane_of(BOB)
    told = {
        "sender_id": BOB.account_id,
        "receiver_id": CAROL.account_id,
        "actions": (act.Transfer(1),),
        "nonce": world.network.head().height * 10**6 - 1,
        "max_block_height": world.network.head().height + blocks_left,
        "public_key": PublicKey.parse(signer.public_key),
    } | changes
    return sign_delegate(act.DelegateAction(**told), signer)


def as_intent(signed: act.SignedDelegate) -> Intent:
    payload = {"signed_delegate": base64.b64encode(signed.encode_bare()).decode()}
    return intent("k", "near.delegate", payload)


@pytest.fixture
async def cached():
    """A chain whose head was read once and is as old as it may get."""
    world = NearWorld()
    lane, signer = lane_of(ALICE)
    policy = NearPolicy(delegate_min_blocks_left=MARGIN)
    chain = NearChain("localnet", (), {lane: signer}, rpc=world.rpc, settings=OLD_HEADS, policy=policy)
    world.network.advance(5)
    await chain.recent_block()
    yield world, chain
    await chain.close()


async def test_an_expired_delegate_is_refused_although_the_cached_head_is_old(cached):
    world, chain = cached
    signed = user_delegate(world, blocks_left=MARGIN + 5)
    world.network.advance(MARGIN + 6)  # it is over; the cached head has not seen that
    [refused] = await chain.prepare(world.lane, [as_intent(signed)])
    assert isinstance(refused, Impossible)
    assert refused.saved == "expired"
    assert "max_block_height" in str(refused.error["message"])


async def test_a_delegate_that_expires_between_check_and_signature_is_not_signed(cached):
    world, chain = cached
    signed = user_delegate(world, blocks_left=MARGIN + 5)
    chain._head.block_s = 0.0  # blocks may come at any pace, so that no cached head is young enough
    [ready] = await chain.prepare(world.lane, [as_intent(signed)])
    assert isinstance(ready, Prepared)
    world.network.advance(MARGIN + 6)
    with pytest.raises(NotSigned) as stopped:
        await chain.sign(world.lane, [ready], 1, Purpose.FIRST, 0)
    assert stopped.value.id == ready.intent.id
    assert stopped.value.saved == "expired"


async def test_the_pace_of_blocks_is_learned_from_what_heads_are_read(cached):
    world, chain = cached
    before = chain._head.block_s
    world.network.advance(10_000)
    await chain._head.get(0.0)
    assert chain._head.block_s < before


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"nonce": 1}, "nonce_used"),
        ({"nonce": 2**63}, "nonce_too_large"),
    ],
)
async def test_every_refusal_says_what_it_saved(cached, changes, why):
    world, chain = cached
    [refused] = await chain.prepare(world.lane, [as_intent(user_delegate(world, **changes))])
    assert isinstance(refused, Impossible)
    assert refused.saved == why


async def test_a_refusal_that_costs_nothing_on_chain_counts_as_nothing(cached):
    world, chain = cached
    greedy = user_delegate(world, actions=(act.Transfer(10**24),))
    [refused] = await chain.prepare(world.lane, [as_intent(greedy)])
    assert isinstance(refused, Impossible)
    assert refused.saved == ""


def test_delegates_of_one_key_share_lane_and_sequence_whatever_they_ask_for():
    world = NearWorld()
    one, two = user_delegate(world), user_delegate(world, actions=(act.Transfer(2),))
    other = user_delegate(world, sender_id=CAROL.account_id)
    assert sender_key(one) == sender_key(two) != sender_key(other)
    assert delegate_turn(as_intent(one).payload) == delegate_turn(as_intent(two).payload)
    assert delegate_turn(as_intent(one).payload) != delegate_turn(as_intent(other).payload)
