"""Views, and hints between instances."""

from __future__ import annotations

import asyncio

from tests.mempool.stage import Stage, address
from txmanager.core.admission import Base, End, Entry, State, Totals


async def content_shows_waiting_processing_and_unsure_by_sender_and_nonce(stage: Stage) -> None:
    await stage.open()
    await stage.sent("a", 0)
    grant = await stage.granted("a", 1)
    gap = await stage.waiting("a", 3)
    other = await stage.waiting("b", 0, 7)
    shown = await stage.mempool.content()
    assert [(e.sender, e.nonce, e.state, e.gapped) for e in shown] == [
        (address("a"), 1, State.PROCESSING, False),
        (address("a"), 3, State.WAITING, True),
        (address("b"), 0, State.WAITING, False),
    ]
    assert shown[2] == Entry(other.hash, other.sender, 0, 7, other.raw, State.WAITING, False, stage.now, stage.now, 0)
    assert [e.hash for e in await stage.mempool.content(address("a"))] == [grant.hash, gap.hash]
    assert [e.hash for e in await stage.mempool.content(most=2)] == [grant.hash, gap.hash]
    assert [e.hash for e in await stage.mempool.content(after=(address("a"), 1), most=1)] == [gap.hash]
    assert [e.hash for e in await stage.mempool.content(after=(address("a"), 3))] == [other.hash]
    assert await stage.mempool.content(address("z")) == []


async def followed_pages_by_sender(stage: Stage) -> None:
    await stage.open()
    grants = [await stage.granted(name, 0) for name in "abc"]
    await stage.waiting("b", 5)
    pages = [await stage.mempool.followed(most=2), await stage.mempool.followed(address("b"), 2)]
    assert [[f.sender for f in page] for page in pages] == [[address("a"), address("b")], [address("c")]]
    assert [f.gaps for f in pages[0]] == [False, True]
    assert pages[1][0].out == ((0, grants[2].hash, State.PROCESSING),)
    assert pages[1][0].base == Base(0, "0xb1", 1, 1, True)


async def totals_return_to_zero(stage: Stage) -> None:
    await stage.open()
    assert await stage.mempool.totals() == Totals(alive=1)
    grant = await stage.granted("a", 0, size=7)
    await stage.waiting("a", 2, size=5)
    sent = await stage.sent("b", 0, size=3)
    await stage.waiting("c", 0, size=1)
    assert await stage.mempool.totals() == Totals(
        waiting=2, gapped=1, processing=1, sent=1, waiting_bytes=6, kept_bytes=10, senders=3, ready=1, alive=1
    )
    await stage.done(grant, "refuse", more=False)
    await stage.mempool.end([End(sent.hash, "final")])
    await stage.mempool.drop(all=True)
    await stage.advance(10_000)
    await stage.mempool.expire()
    assert await stage.mempool.totals() == Totals()


async def unknown_things_are_none(stage: Stage) -> None:
    await stage.open()
    assert await stage.mempool.find("0x" + "1" * 64) is None
    assert await stage.mempool.base(address("q")) is None
    assert await stage.mempool.drop(hash="0x" + "1" * 64) == []
    assert await stage.mempool.reopen([]) == []
    assert await stage.mempool.observe({}) == {}


async def whoever_waits_is_woken(stage: Stage) -> None:
    await stage.open()
    mempool = stage.mempool
    while await mempool.wait_ready(0.05):
        pass
    ready = asyncio.create_task(mempool.wait_ready(30))
    await asyncio.sleep(0)
    await stage.waiting("a", 0)
    assert await asyncio.wait_for(ready, 30)
    [grant] = await stage.take()
    await mempool.wait_word(grant.hash, 0.05)
    word = asyncio.create_task(mempool.wait_word(grant.hash, 30))
    await asyncio.sleep(0.01)
    await stage.done(grant)
    await asyncio.wait_for(word, 10)


async def only_a_decision_wakes_who_waits(stage: Stage) -> None:
    """A caller that is woken asks the store: grants and retries would cost it a call each."""
    await stage.open()
    other = await stage.granted("b", 0)
    offer = await stage.waiting("a", 0)
    await stage.mempool.wait_word(offer.hash, 0.05)
    word = asyncio.create_task(stage.mempool.wait_word(offer.hash, 30))
    last = asyncio.create_task(stage.mempool.wait_word(other.hash, 30))
    await asyncio.sleep(0.01)
    [grant] = await stage.take()
    await stage.done(grant, "maybe", more=False)
    await stage.done(other, more=False)
    await asyncio.wait_for(last, 10)
    assert not word.done()
    word.cancel()


async def head_left_behind_rings(stage: Stage) -> None:
    """What one instance does not take, another is told of."""
    await stage.open(executors=1)
    grant = await stage.granted("a", 0)
    await stage.waiting("b", 0)
    while await stage.mempool.wait_ready(0.05):
        pass
    ready = asyncio.create_task(stage.mempool.wait_ready(30))
    await asyncio.sleep(0.01)
    await stage.done(grant, more=False)
    assert await asyncio.wait_for(ready, 30)


async def instance_that_leaves_rings(stage: Stage) -> None:
    await stage.open()
    while await stage.mempool.wait_ready(0.05):
        pass
    ready = asyncio.create_task(stage.mempool.wait_ready(30))
    await asyncio.sleep(0.01)
    await stage.mempool.leave("me")
    assert await asyncio.wait_for(ready, 30)
