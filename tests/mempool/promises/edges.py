"""Promises that only one guard keeps: each of these was written for the guard whose absence nothing else showed."""

from __future__ import annotations

from tests.mempool.stage import Stage, address
from txmanager.core.admission import ALIVE_MS, Count, End, State


async def sent_bytes_due_first_set_the_time(stage: Stage) -> None:
    await stage.open(resend_ms=3_000)
    first = await stage.sent("a", 0)
    await stage.advance(2_000, "me")
    await stage.sent("a", 1)
    await stage.advance(1_000, "me")
    [again] = await stage.take(4)
    assert again.hash == first.hash
    assert (await stage.done(again)).grant is None


async def node_that_has_lower_nonces_lets_ours_go(stage: Stage) -> None:
    await stage.open()
    await stage.waiting("a", 3)
    await stage.observe("a", 0, pending=3)
    assert [g.nonce for g in await stage.take()] == [3]


async def bytes_that_are_kept_already_need_no_room_to_go_again(stage: Stage) -> None:
    await stage.open(kept_bytes=160)
    sent = await stage.sent("a", 0, size=150)
    await stage.mempool.reopen([sent.hash])
    assert [g.hash for g in await stage.take()] == [sent.hash]


async def first_bytes_of_a_sender_may_exceed_its_share(stage: Stage) -> None:
    await stage.open(kept_bytes=160)
    assert (await stage.granted("a", 0, size=100)).nonce == 0


async def single_transaction_larger_than_the_room_still_goes(stage: Stage) -> None:
    await stage.open(kept_bytes=100)
    await stage.waiting("a", 0, size=100)
    await stage.open(kept_bytes=50)
    assert len(await stage.take()) == 1


async def bytes_whose_replacement_is_refused_go_again(stage: Stage) -> None:
    await stage.open(resend_ms=3_000)
    old = await stage.sent("a", 0)
    await stage.advance(2_000, "me")
    new = await stage.granted("a", 0, 11)
    await stage.advance(1_000, "me")
    assert await stage.take() == []
    await stage.done(new, "refuse")
    await stage.advance(3_000, "me")
    assert [g.hash for g in await stage.take()] == [old.hash]


async def end_below_the_count_leaves_the_run(stage: Stage) -> None:
    await stage.open()
    sent = await stage.sent("a", 0)
    offer = await stage.waiting("a", 1)
    await stage.observe("a", 1)
    await stage.advance(1_000)
    await stage.mempool.end([End(sent.hash, "final")])
    assert await stage.run("a") == 2
    [entry] = await stage.mempool.content()
    assert (entry.hash, entry.gapped, entry.moved_at) == (offer.hash, False, stage.now - 1_000)


async def raised_count_at_a_lower_height_brings_its_block(stage: Stage) -> None:
    await stage.open()
    await stage.waiting("a", 0)
    await stage.observe("a", 0, block="0xhigh", height=30)
    await stage.observe("a", 1, block="0xraised", height=20)
    base = await stage.mempool.base(address("a"))
    assert base is not None
    assert (base.block, base.height) == ("0xraised", 20)


async def higher_count_lands_only_what_is_below_it(stage: Stage) -> None:
    await stage.open()
    first, second = await stage.sent("a", 0), await stage.sent("a", 1)
    await stage.observe("a", 1)
    assert [await stage.state(o) for o in (first, second)] == [State.LANDED, State.SENT]


async def count_below_a_hold_leaves_it(stage: Stage) -> None:
    await stage.open()
    await stage.sent("a", 0)
    grant = await stage.granted("a", 1)
    await stage.observe("a", 1)
    assert (await stage.done(grant)).word == "done"


async def reorg_sends_only_the_newest_bytes_of_a_nonce_again(stage: Stage) -> None:
    await stage.open()
    old, new = await stage.sent("a", 0), await stage.sent("a", 0, 11)
    await stage.observe("a", 1, block="0xhigh")
    await stage.observe("a", 0, block="0xlow", orphaned="0xhigh")
    assert [await stage.state(o) for o in (old, new)] == [State.SENT, State.UNSURE]


async def bytes_purged_in_a_batch_may_come_again_in_it(stage: Stage) -> None:
    await stage.open(capacity=1)
    cheap, dear = stage.offer("a", 0, 5), stage.offer("b", 0, 6)
    await stage.waiting("c", 0, 4)
    counts = {o.sender: Count(0, "0xb", 1) for o in (cheap, dear)}
    answers = await stage.mempool.admit([cheap, dear, cheap], counts)
    assert [a.word for a in answers] == ["admitted", "admitted", "underpriced"]


async def count_read_for_an_admit_counts(stage: Stage) -> None:
    await stage.open()
    sent = await stage.sent("a", 0)
    await stage.waiting("a", 1, count=1)
    assert await stage.state(sent) == State.LANDED


async def waiting_nonce_is_replaced_on_a_strict_node(stage: Stage) -> None:
    await stage.open(strict=True)
    await stage.waiting("a", 0, 10)
    assert await stage.word("a", 0, 11) == "admitted"


async def gap_between_watermark_and_capacity_must_beat_a_gapped_one(stage: Stage) -> None:
    await stage.open(capacity=10, high_watermark=0.5)
    for nonce in range(5):
        await stage.waiting("s", nonce)
    await stage.waiting("a", 1, 5)
    assert await stage.word("b", 1, 5) == "underpriced"
    assert await stage.word("b", 1, 6) == "admitted"
    assert (await stage.mempool.totals()).waiting == 7


async def full_mempool_of_gaps_still_asks_for_a_price(stage: Stage) -> None:
    await stage.open(capacity=1)
    await stage.waiting("a", 1, 5)
    assert await stage.word("b", 0, 5) == "underpriced"
    assert await stage.word("b", 0, 6) == "admitted"


async def bytes_that_come_again_have_no_end(stage: Stage) -> None:
    await stage.open()
    offer = stage.offer("a", 0)
    counts = {offer.sender: Count(0, "0xb", 1)}
    await stage.mempool.admit([offer], counts)
    await stage.mempool.drop(hash=offer.hash)
    await stage.mempool.admit([offer], counts)
    await stage.advance(600_000)
    await stage.mempool.expire()
    assert await stage.state(offer) == State.WAITING
    await stage.mempool.drop(hash=offer.hash)
    await stage.mempool.expire()
    assert await stage.state(offer) == "dropped"


async def repeated_admit_tells_no_later_grant(stage: Stage) -> None:
    await stage.open()
    stage.mempool._token = lambda: "same"  # type: ignore[attr-defined]
    offer = stage.offer("a", 0)
    counts = {offer.sender: Count(0, "0xb", 1)}
    await stage.mempool.admit([offer], counts)
    stage.mempool._token = lambda: "other"  # type: ignore[attr-defined]
    assert len(await stage.take()) == 1
    stage.mempool._token = lambda: "same"  # type: ignore[attr-defined]
    [again] = await stage.mempool.admit([offer], counts, owner="me")
    assert (again.word, again.grant) == ("admitted", None)


async def repeated_admit_tells_no_grant_of_somebody_else(stage: Stage) -> None:
    await stage.open()
    await stage.mempool.heartbeat("you")
    stage.mempool._token = lambda: "same"  # type: ignore[attr-defined]
    offer = stage.offer("a", 0)
    counts = {offer.sender: Count(0, "0xb", 1)}
    [first] = await stage.mempool.admit([offer], counts, owner="me")
    assert first.grant is not None
    [again] = await stage.mempool.admit([offer], counts, owner="you")
    assert (again.word, again.grant) == ("admitted", None)


async def take_answers_only_its_own_grants(stage: Stage) -> None:
    await stage.open()
    await stage.waiting("a", 0)
    await stage.waiting("b", 0)
    first = await stage.take()
    second = await stage.take()
    assert len(first) == len(second) == 1
    assert first != second


async def same_call_of_somebody_else_gets_nothing(stage: Stage) -> None:
    await stage.open()
    await stage.mempool.heartbeat("you")
    stage.mempool._token = lambda: "same"  # type: ignore[attr-defined]
    await stage.waiting("a", 0)
    assert len(await stage.take()) == 1
    assert await stage.take(1, "you") == []


async def take_rouses_a_bounded_number_of_senders(stage: Stage) -> None:
    """A store that served one caller for long would look dead to all others."""
    await stage.open(resend_ms=4_000, executors=300)
    for n in range(201):
        await stage.sent(f"s{n}", 0)
    await stage.advance(4_000, "me")
    taken = await stage.mempool.take("me", 1)
    totals = await stage.mempool.totals()
    assert (len(taken.grants), totals.processing, totals.unsure, totals.sent) == (1, 1, 199, 1)
    assert taken.next_ms == 0
    await stage.take(1)
    assert (await stage.mempool.totals()).sent == 0


async def resend_does_not_end_a_pause(stage: Stage) -> None:
    await stage.open(resend_ms=3_000)
    await stage.sent("a", 0)
    grant = await stage.granted("a", 1)
    await stage.done(grant, "retry", wait_ms=10_000)
    await stage.advance(4_000, "me")
    assert await stage.take(4) == []
    await stage.advance(6_000, "me")
    assert [g.nonce for g in await stage.take(4)] == [0]


async def resend_leaves_what_waits_alone(stage: Stage) -> None:
    await stage.open(resend_ms=3_000)
    await stage.sent("a", 0)
    offer = await stage.waiting("a", 2)
    await stage.advance(3_000, "me")
    await stage.take(4)
    assert await stage.state(offer) == State.WAITING


async def take_over_needs_a_living_instance(stage: Stage) -> None:
    await stage.open()
    await stage.granted("a", 0)
    await stage.advance(ALIVE_MS)
    assert await stage.take(1, "dead") == []


async def take_over_takes_no_more_than_asked_for(stage: Stage) -> None:
    await stage.open()
    for name in "abc":
        await stage.granted(name, 0)
    await stage.advance(ALIVE_MS)
    await stage.mempool.heartbeat("you")
    assert len(await stage.take(2, "you")) == 2
    assert len(await stage.take(2, "you")) == 1


async def done_of_a_late_holder_that_took_over_itself_is_stale(stage: Stage) -> None:
    await stage.open(hold_ms=3_000)
    old = await stage.granted("a", 0)
    await stage.advance(3_000, "me")
    [new] = await stage.take()
    assert (await stage.done(old, "refuse")).word == "stale"
    assert (await stage.done(new)).word == "done"


async def done_twice_tells_only_its_own_grant(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    assert (await stage.done(grant)).grant is None
    await stage.granted("b", 0)
    again = await stage.done(grant)
    assert (again.word, again.grant) == ("done", None)


async def done_twice_by_somebody_else_tells_no_grant(stage: Stage) -> None:
    await stage.open()
    await stage.mempool.heartbeat("you")
    grant = await stage.granted("a", 0)
    await stage.waiting("a", 1)
    assert (await stage.done(grant)).grant is not None
    assert (await stage.done(grant, owner="you")).grant is None


async def only_retry_and_maybe_pause_the_sender(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    await stage.waiting("a", 1)
    assert (await stage.done(grant, "sent", wait_ms=9_000)).grant is not None


async def end_told_twice_in_one_call_is_one_end(stage: Stage) -> None:
    await stage.open()
    offer = await stage.waiting("a", 0)
    assert await stage.mempool.end([End(offer.hash, "dropped"), End(offer.hash, "dropped")]) == [offer.hash]


async def living_instances_are_not_forgotten(stage: Stage) -> None:
    await stage.open()
    await stage.mempool.expire()
    assert not (await stage.mempool.heartbeat("me")).lapsed


async def followed_tells_only_what_is_out(stage: Stage) -> None:
    await stage.open()
    await stage.waiting("a", 0)
    [followed] = await stage.mempool.followed()
    assert followed.out == ()


async def reopened_bytes_wait_for_the_one_under_way(stage: Stage) -> None:
    await stage.open()
    sent = await stage.sent("a", 0)
    grant = await stage.granted("a", 1)
    await stage.mempool.reopen([sent.hash])
    assert await stage.take() == []
    done = await stage.done(grant)
    assert done.grant is not None
    assert done.grant.hash == sent.hash
