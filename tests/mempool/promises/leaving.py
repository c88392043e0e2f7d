"""How transactions end, by the chain, by time, by an operator; and what is forgotten."""

from __future__ import annotations

from tests.mempool.stage import Stage, address
from txmanager.core.admission import ENDED_MS, Count, End, Ended, State


async def end_removes_what_landed_and_tells_why_for_ten_minutes(stage: Stage) -> None:
    await stage.open()
    sent = await stage.sent("a", 0)
    await stage.observe("a", 1)
    assert await stage.mempool.end([End(sent.hash, "final", "x" * 600, "ok")]) == [sent.hash]
    assert await stage.mempool.end([End(sent.hash, "final")]) == []
    ended = await stage.mempool.find(sent.hash)
    assert ended == Ended(sent.hash, sent.sender, 0, "final", "x" * 500, "ok", stage.now)
    assert (await stage.mempool.totals()).kept_bytes == 0
    await stage.advance(ENDED_MS - 1)
    await stage.mempool.expire()
    assert await stage.state(sent) == "final"
    await stage.advance(1)
    await stage.mempool.expire()
    assert await stage.state(sent) is None


async def what_is_processing_has_no_end_yet(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    assert await stage.mempool.end([End(grant.hash, "overtaken")]) == []
    assert await stage.mempool.drop(hash=grant.hash) == []
    assert (await stage.done(grant)).word == "done"


async def end_of_a_sent_one_reopens_its_nonce(stage: Stage) -> None:
    await stage.open()
    first, second = await stage.sent("a", 0), await stage.sent("a", 1)
    offer = await stage.waiting("a", 2)
    await stage.mempool.end([End(first.hash, "expired")])
    assert await stage.run("a") == 0
    assert await stage.gapped(offer)
    assert await stage.state(second) == State.SENT
    assert (await stage.mempool.totals()).gapped == 1
    assert await stage.take() == []
    grant = await stage.granted("a", 0)
    done = await stage.done(grant)
    assert done.grant is not None
    assert done.grant.nonce == 2


async def drop_of_one_sender_or_all_leaves_the_rest(stage: Stage) -> None:
    await stage.open()
    kept = await stage.granted("c", 0)
    a, b = await stage.waiting("a", 0), await stage.waiting("b", 0)
    later = await stage.waiting("c", 1)
    assert await stage.mempool.drop(hash=a.hash) == [a.hash]
    assert await stage.mempool.drop(sender=b.sender) == [b.hash]
    assert await stage.mempool.drop(all=True) == [later.hash]
    assert await stage.state(kept) == State.PROCESSING
    assert [await stage.state(o) for o in (a, b, later)] == ["dropped"] * 3


async def drop_leaves_what_a_node_may_have(stage: Stage) -> None:
    """Its nonce would be free for other bytes, which a node refuses, and a strict one charges for."""
    await stage.open()
    sent, landed = await stage.sent("a", 0), await stage.sent("b", 0)
    await stage.observe("b", 1)
    assert await stage.mempool.drop(all=True) == []
    assert await stage.mempool.drop(hash=sent.hash) == await stage.mempool.drop(sender=landed.sender) == []
    assert [await stage.state(one) for one in (sent, landed)] == [State.SENT, State.LANDED]


async def drop_of_a_head_frees_its_place_in_line(stage: Stage) -> None:
    await stage.open()
    head = await stage.waiting("a", 0)
    await stage.mempool.drop(hash=head.hash)
    assert (await stage.mempool.totals()).ready == 0
    assert await stage.take() == []


async def gapped_ones_expire_and_pending_ones_do_not(stage: Stage) -> None:
    await stage.open(idle_ms=10_000)
    gap, head = await stage.waiting("a", 1), await stage.waiting("b", 0)
    await stage.advance(9_999)
    assert (await stage.mempool.expire()).ended == ()
    await stage.advance(1)
    assert (await stage.mempool.expire()).ended == (gap.hash,)
    assert await stage.state(gap) == "expired"
    assert await stage.state(head) == State.WAITING


async def time_of_a_gap_counts_from_when_it_became_one(stage: Stage) -> None:
    await stage.open(idle_ms=10_000)
    head, gap = await stage.waiting("a", 0), await stage.waiting("a", 1)
    await stage.advance(9_000)
    await stage.mempool.drop(hash=head.hash)
    await stage.advance(9_000)
    assert (await stage.mempool.expire()).ended == ()
    await stage.advance(1_000)
    assert (await stage.mempool.expire()).ended == (gap.hash,)


async def sent_ones_that_do_not_land_expire_from_their_first_send(stage: Stage) -> None:
    await stage.open(idle_ms=10_000, resend_ms=4_000)
    sent = await stage.sent("a", 0)
    await stage.advance(4_000, "me")
    [again] = await stage.take()
    await stage.done(again, more=False)
    await stage.advance(5_000)
    assert (await stage.mempool.expire()).ended == ()
    await stage.advance(1_000)
    assert (await stage.mempool.expire()).ended == (sent.hash,)


async def unsure_ones_expire_behind_a_missing_nonce_only(stage: Stage) -> None:
    """A reorganisation takes back a nonce that ended long ago: what follows it can never be sent."""
    await stage.open(idle_ms=10_000)
    first, second = await stage.sent("a", 0), await stage.sent("a", 1)
    await stage.observe("a", 2, block="0xhigh")
    await stage.mempool.end([End(first.hash, "final")])
    await stage.observe("a", 0, block="0xlow", orphaned="0xhigh")
    assert await stage.state(second) == State.UNSURE
    head = await stage.granted("b", 0)
    await stage.done(head, "maybe", wait_ms=60_000)
    assert await stage.take() == [], "a nonce is missing"
    await stage.advance(9_999, "me")
    assert (await stage.mempool.expire()).ended == ()
    await stage.advance(1, "me")
    assert (await stage.mempool.expire()).ended == (second.hash,)
    await stage.advance(20_000, "me")
    assert (await stage.mempool.expire()).ended == ()
    assert await stage.state(head) == State.UNSURE, "the chain decides"


async def unsure_ones_never_expire_where_gaps_are_sent(stage: Stage) -> None:
    await stage.open(idle_ms=1_000, order="arrival")
    gap = await stage.granted("a", 3)
    await stage.done(gap, "maybe", wait_ms=60_000)
    await stage.advance(5_000, "me")
    assert (await stage.mempool.expire()).ended == ()
    assert await stage.state(gap) == State.UNSURE


async def landed_ones_do_not_expire(stage: Stage) -> None:
    await stage.open(idle_ms=1_000)
    sent = await stage.sent("a", 0)
    await stage.observe("a", 1)
    await stage.advance(2_000)
    assert (await stage.mempool.expire()).ended == ()
    assert await stage.state(sent) == State.LANDED


async def idle_sender_is_forgotten_when_its_count_is_old(stage: Stage) -> None:
    await stage.open(count_fresh_ms=4_000)
    offer = await stage.waiting("a", 0)
    await stage.mempool.drop(hash=offer.hash)
    await stage.mempool.expire()
    assert await stage.run("a") == 0
    await stage.advance(4_000)
    await stage.mempool.expire()
    assert await stage.mempool.base(address("a")) is None
    await stage.waiting("b", 0)
    await stage.advance(8_000)
    await stage.mempool.expire()
    assert await stage.run("b") == 1


async def sender_that_comes_back_is_not_forgotten(stage: Stage) -> None:
    await stage.open(count_fresh_ms=4_000)
    offer = await stage.waiting("a", 0)
    await stage.mempool.drop(hash=offer.hash)
    kept = await stage.waiting("a", 0)
    await stage.advance(4_000)
    await stage.mempool.expire()
    assert await stage.state(kept) == State.WAITING
    assert await stage.run("a") == 1


async def expiry_does_a_bounded_piece_of_work(stage: Stage) -> None:
    await stage.open(idle_ms=1_000, per_sender=300, kept_bytes=10**6)
    offers = [stage.offer("a", n, size=1) for n in range(1, 251)]
    await stage.mempool.admit(offers, {address("a"): Count(0, "0xb", 1)})
    await stage.advance(1_000)
    first, second = await stage.mempool.expire(), await stage.mempool.expire()
    assert [(len(e.ended), e.more) for e in (first, second)] == [(200, True), (50, False)]


async def pause_ends_with_the_last_transaction(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    await stage.done(grant, "retry", wait_ms=60_000)
    await stage.mempool.drop(hash=grant.hash)
    await stage.granted("a", 0)


async def dead_instances_are_forgotten(stage: Stage) -> None:
    await stage.open()
    born = (await stage.mempool.heartbeat("me")).born
    await stage.advance(ENDED_MS)
    await stage.mempool.expire()
    heard = await stage.mempool.heartbeat("me")
    assert heard.lapsed
    assert heard.born == born
    assert (await stage.mempool.totals()).alive == 1
