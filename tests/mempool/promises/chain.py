"""Counts: they go up, come down only after a reorg, and end what they pass."""

from __future__ import annotations

from tests.mempool.stage import Stage, address
from txmanager.core.admission import End, State


async def higher_count_lands_what_is_below_it(stage: Stage) -> None:
    await stage.open()
    sent = await stage.sent("a", 0)
    waits = await stage.waiting("a", 1)
    assert await stage.observe("a", 2) == "raised"
    assert [await stage.state(o) for o in (sent, waits)] == [State.LANDED] * 2
    assert await stage.run("a") == 2
    assert await stage.observe("a", 2) == "same"


async def count_that_passes_a_hold_ends_it(stage: Stage) -> None:
    await stage.open(executors=1)
    grant = await stage.granted("a", 0)
    await stage.waiting("a", 1)
    await stage.observe("a", 1)
    [next_one] = await stage.take()
    assert next_one.nonce == 1
    assert (await stage.done(grant, "refuse")).word == "stale"
    assert await stage.state(grant) == State.LANDED


async def lower_count_is_not_believed_without_a_reorg(stage: Stage) -> None:
    await stage.open()
    sent = await stage.sent("a", 0)
    await stage.observe("a", 1, block="0xhigh", height=20)
    assert await stage.observe("a", 0, block="0xlow", height=25) == "lower"
    assert await stage.observe("a", 0, block="0xlow", height=25, orphaned="0xother") == "lower"
    assert await stage.state(sent) == State.LANDED
    base = await stage.mempool.base(address("a"))
    assert base is not None
    assert (base.count, base.block, base.height) == (1, "0xhigh", 20)


async def reorg_reopens_landed_bytes(stage: Stage) -> None:
    await stage.open()
    first, second = await stage.sent("a", 0), await stage.sent("a", 1)
    waits = await stage.waiting("a", 2)
    await stage.observe("a", 2, block="0xhigh")
    assert await stage.observe("a", 1, block="0xlow", orphaned="0xhigh") == "lowered"
    assert [await stage.state(o) for o in (first, second)] == [State.LANDED, State.UNSURE]
    [again] = await stage.take()
    assert (again.hash, again.again) == (second.hash, True)
    done = await stage.done(again)
    assert done.grant is not None
    assert done.grant.hash == waits.hash


async def count_never_goes_down_on_a_strict_node(stage: Stage) -> None:
    await stage.open(strict=True)
    sent = await stage.sent("a", 0)
    await stage.observe("a", 1, block="0xhigh")
    assert await stage.observe("a", 0, block="0xlow", orphaned="0xhigh") == "lower"
    assert await stage.state(sent) == State.LANDED


async def reorg_behind_a_finished_nonce_leaves_a_gap(stage: Stage) -> None:
    await stage.open()
    sent = await stage.sent("a", 0)
    offer = await stage.waiting("a", 1)
    await stage.observe("a", 1, block="0xhigh")
    await stage.mempool.end([End(sent.hash, "final")])
    assert not await stage.gapped(offer)
    await stage.observe("a", 0, block="0xlow", orphaned="0xhigh")
    assert await stage.run("a") == 0
    assert await stage.gapped(offer)
    assert await stage.take() == []


async def same_count_at_a_lower_height_keeps_the_higher_block(stage: Stage) -> None:
    await stage.open()
    await stage.waiting("a", 0)
    await stage.observe("a", 0, block="0xnew", height=30)
    await stage.observe("a", 0, block="0xold", height=9)
    base = await stage.mempool.base(address("a"))
    assert base is not None
    assert (base.block, base.height) == ("0xnew", 30)


async def count_of_an_unknown_sender_is_not_kept(stage: Stage) -> None:
    await stage.open()
    assert await stage.observe("a", 7) == "unknown"
    assert await stage.mempool.base(address("a")) is None


async def count_that_jumps_over_a_gap_closes_it(stage: Stage) -> None:
    await stage.open()
    offer = await stage.waiting("a", 3)
    assert await stage.gapped(offer)
    await stage.observe("a", 3)
    assert not await stage.gapped(offer)
    [grant] = await stage.take()
    assert grant.hash == offer.hash


async def pending_of_the_node_moves_the_base_up_and_down(stage: Stage) -> None:
    await stage.open()
    gap, above = await stage.waiting("a", 2), await stage.waiting("a", 4)
    await stage.observe("a", 0, pending=3)
    assert await stage.run("a") == 3
    assert [await stage.gapped(o) for o in (gap, above)] == [False, True]
    await stage.observe("a", 0, height=12, pending=0)
    assert await stage.run("a") == 0
    assert [await stage.gapped(o) for o in (gap, above)] == [True, True]


async def run_is_the_first_missing_nonce(stage: Stage) -> None:
    await stage.open()
    await stage.waiting("a", 9, count=5)
    assert await stage.run("a") == 5
    for nonce in (5, 6, 7):
        await stage.sent("a", nonce, count=5)
    assert await stage.run("a") == 8
    await stage.observe("a", 8)
    assert await stage.run("a") == 8
    await stage.waiting("a", 8, count=8)
    assert await stage.run("a") == 10


async def sent_bytes_that_are_reopened_go_again_before_what_follows(stage: Stage) -> None:
    await stage.open()
    sent = await stage.sent("a", 0)
    await stage.waiting("a", 1)
    assert await stage.mempool.reopen([sent.hash, sent.hash, "0x" + "9" * 64]) == [sent.hash]
    [grant] = await stage.take()
    assert (grant.hash, grant.again) == (sent.hash, True)


async def only_the_newest_bytes_of_a_nonce_are_reopened(stage: Stage) -> None:
    await stage.open()
    old = await stage.sent("a", 0)
    new = await stage.sent("a", 0, 11)
    waits = await stage.waiting("b", 0)
    assert await stage.mempool.reopen([old.hash, waits.hash]) == []
    assert await stage.mempool.reopen([new.hash]) == [new.hash]


async def both_hashes_of_a_replaced_nonce_are_followed(stage: Stage) -> None:
    await stage.open()
    old, new = await stage.sent("a", 0), await stage.sent("a", 0, 11)
    [followed] = await stage.mempool.followed()
    assert {hash for _, hash, _ in followed.out} == {old.hash, new.hash}
    await stage.observe("a", 1)
    assert [await stage.state(o) for o in (old, new)] == [State.LANDED] * 2
