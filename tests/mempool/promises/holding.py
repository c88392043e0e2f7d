"""Grants: fenced, with a deadline, taken over when the holder dies; and every repeat answers the same."""

from __future__ import annotations

from tests.mempool.stage import Stage, address
from txmanager.core.admission import ALIVE_MS, Admitted, Count, State


async def grant_is_of_the_same_bytes_with_a_fresh_deadline_for_each(stage: Stage) -> None:
    await stage.open(hold_ms=3_000)
    grant = await stage.granted("a", 0)
    offer = await stage.waiting("a", 1)
    await stage.advance(2_000, "me")
    done = await stage.done(grant)
    assert done.grant is not None
    assert (grant.left_ms, done.grant.left_ms, done.held_ms) == (3_000, 3_000, 2_000)
    assert (done.grant.raw, done.grant.hash, done.grant.waited_ms) == (offer.raw, offer.hash, 2_000)


async def late_holder_is_taken_over_at_its_deadline_and_not_before(stage: Stage) -> None:
    await stage.open(hold_ms=3_000)
    await stage.mempool.heartbeat("you")
    grant = await stage.granted("a", 0)
    await stage.advance(2_000, "me", "you")
    taken = await stage.mempool.take("you", 1)
    assert (taken.grants, taken.forced, taken.next_ms) == ((), 0, 1_000)
    await stage.advance(1_000, "me", "you")
    taken = await stage.mempool.take("you", 1)
    assert taken.forced == 1
    [other] = taken.grants
    assert (other.hash, other.raw, other.again, other.tries) == (grant.hash, grant.raw, True, 2)
    assert other.fence != grant.fence


async def dead_holder_is_taken_over_after_its_last_heartbeat(stage: Stage) -> None:
    await stage.open()
    await stage.mempool.heartbeat("you")
    await stage.granted("a", 0)
    await stage.advance(ALIVE_MS - 1, "you")
    assert await stage.take(1, "you") == []
    await stage.advance(1, "you")
    [grant] = await stage.take(1, "you")
    assert grant.again


async def instance_that_was_silent_holds_nothing_any_more(stage: Stage) -> None:
    """Though nobody took over meanwhile: it may have missed its own deadline."""
    await stage.open()
    grant = await stage.granted("a", 0)
    await stage.advance(ALIVE_MS)
    assert (await stage.mempool.heartbeat("me")).lapsed
    assert not (await stage.mempool.heartbeat("me")).lapsed
    [again] = await stage.take()
    assert again.again
    assert again.fence != grant.fence
    assert (await stage.done(grant)).word == "stale"


async def done_of_a_stale_holder_changes_nothing(stage: Stage) -> None:
    await stage.open(hold_ms=3_000)
    await stage.mempool.heartbeat("you")
    old = await stage.granted("a", 0)
    await stage.advance(3_000, "me", "you")
    [new] = await stage.take(1, "you")
    for verdict in ("sent", "retry", "maybe", "refuse"):
        done = await stage.done(old, verdict)
        assert (done.word, done.grant) == ("stale", None)
    assert await stage.state(new) == State.PROCESSING
    assert (await stage.done(new, owner="you")).word == "done"


async def done_by_somebody_else_changes_nothing(stage: Stage) -> None:
    await stage.open()
    await stage.mempool.heartbeat("you")
    grant = await stage.granted("a", 0)
    assert (await stage.done(grant, "refuse", owner="you")).word == "stale"
    assert await stage.state(grant) == State.PROCESSING


async def done_twice_is_done_once(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    await stage.waiting("a", 1)
    first = await stage.done(grant)
    again = await stage.done(grant, "refuse")
    assert first.grant is not None
    assert again.word == "done"
    assert again.grant == first.grant
    assert await stage.state(grant) == State.SENT
    assert (await stage.done(first.grant)).word == "done"
    assert await stage.done(grant) == await stage.done(grant)
    assert (await stage.done(grant)).word == "stale"


async def done_of_an_unknown_sender_is_stale(stage: Stage) -> None:
    await stage.open(count_fresh_ms=1_000)
    grant = await stage.granted("a", 0)
    await stage.done(grant, "refuse")
    await stage.advance(1_000, "me")
    await stage.mempool.expire()
    assert await stage.mempool.base(grant.sender) is None
    assert (await stage.done(grant)).word == "stale"


async def only_a_living_instance_is_granted_anything(stage: Stage) -> None:
    await stage.open()
    _, answer = await stage.admit("a", 0, owner="dead")
    assert answer.grant is None
    assert await stage.take(1, "dead") == []
    await stage.advance(ALIVE_MS)
    assert await stage.take() == []
    _, answer = await stage.admit("b", 0, owner="me")
    assert answer.grant is None
    await stage.mempool.heartbeat("me")
    assert len(await stage.take(4)) == 2


async def done_of_a_silent_instance_counts_and_grants_nothing(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    await stage.waiting("a", 1)
    await stage.advance(ALIVE_MS)
    done = await stage.done(grant)
    assert (done.word, done.grant) == ("done", None)
    assert await stage.state(grant) == State.SENT


async def stopping_instance_gets_no_more_and_leaves_its_holds(stage: Stage) -> None:
    await stage.open()
    await stage.mempool.heartbeat("you")
    grant = await stage.granted("a", 0)
    await stage.waiting("a", 1)
    other = await stage.granted("b", 0)
    assert (await stage.done(grant, more=False)).grant is None
    await stage.mempool.leave("me")
    grants = await stage.take(4, "you")
    assert [(g.hash == other.hash, g.again) for g in grants] == [(True, True), (False, False)]


async def new_store_is_quiet_for_a_while(stage: Stage) -> None:
    await stage.open(quiet_ms=6_000)
    _, answer = await stage.admit("a", 0, owner="me")
    assert answer.grant is None
    taken = await stage.mempool.take("me", 1)
    assert (taken.grants, taken.next_ms) == ((), 6_000)
    await stage.advance(5_999, "me")
    assert await stage.take() == []
    assert (await stage.mempool.totals()).quiet_ms == 1
    await stage.advance(1, "me")
    assert len(await stage.take()) == 1


async def retry_waits_its_time_and_may_be_replaced(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    await stage.done(grant, "retry", wait_ms=2_000)
    assert await stage.state(grant) == State.WAITING
    taken = await stage.mempool.take("me", 1)
    assert (taken.grants, taken.next_ms) == ((), 2_000)
    await stage.waiting("a", 0, 11, owner="me")
    assert await stage.take() == []
    await stage.advance(2_000, "me")
    [again] = await stage.take()
    assert (again.again, again.tries) == (False, 1)


async def retry_without_a_wait_is_granted_again_at_once(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    done = await stage.done(grant, "retry")
    assert done.grant is not None
    assert (done.grant.hash, done.grant.again, done.grant.tries) == (grant.hash, False, 2)


async def retry_in_a_full_mempool_loses_nothing_and_breaks_no_limit(stage: Stage) -> None:
    await stage.open(capacity=1)
    grant = await stage.granted("a", 0)
    other = await stage.waiting("b", 0, 1)
    await stage.done(grant, "retry", more=False)
    assert await stage.state(grant) == State.UNSURE
    assert await stage.state(other) == State.WAITING
    assert (await stage.mempool.totals()).waiting == 1


async def retry_that_does_not_fit_by_bytes_breaks_no_limit(stage: Stage) -> None:
    await stage.open(kept_bytes=100)
    grant = await stage.granted("a", 0, size=60)
    await stage.waiting("b", 0, 1, size=60)
    await stage.done(grant, "retry", more=False)
    assert await stage.state(grant) == State.UNSURE
    assert (await stage.mempool.totals()).waiting_bytes == 60


async def retry_of_what_may_have_been_sent_stays_unsure(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    await stage.done(grant, "maybe", more=False)
    [again] = await stage.take()
    await stage.done(again, "retry", more=False)
    assert await stage.state(grant) == State.UNSURE
    [third] = await stage.take()
    assert third.again


async def maybe_waits_and_holds_back_what_follows(stage: Stage) -> None:
    await stage.open(executors=1)
    grant = await stage.granted("a", 0)
    await stage.waiting("a", 1)
    await stage.waiting("b", 0)
    done = await stage.done(grant, "maybe", wait_ms=2_000)
    assert done.grant is not None
    assert done.grant.sender == address("b")
    assert (await stage.done(done.grant)).grant is None
    assert await stage.state(grant) == State.UNSURE
    await stage.advance(2_000, "me")
    [again] = await stage.take()
    assert (again.hash, again.again) == (grant.hash, True)


async def unsure_is_never_purged_expired_or_dropped(stage: Stage) -> None:
    await stage.open(capacity=1, idle_ms=1_000)
    grant = await stage.granted("a", 0, 1)
    await stage.done(grant, "maybe", wait_ms=60_000)
    await stage.waiting("b", 0, 2)
    await stage.waiting("c", 0, 3)
    await stage.advance(2_000, "me")
    assert (await stage.mempool.expire()).ended == ()
    await stage.mempool.drop(all=True)
    assert await stage.state(grant) == State.UNSURE


async def refusal_ends_it_and_successors_become_gapped(stage: Stage) -> None:
    await stage.open()
    grant = await stage.granted("a", 0)
    offer = await stage.waiting("a", 1)
    done = await stage.done(grant, "refuse", message="insufficient funds", code="funds")
    assert (done.grant, done.waiting) == (None, 1)
    ended = await stage.mempool.find(grant.hash)
    assert (ended.reason, ended.message, ended.code) == ("refused", "insufficient funds", "funds")  # type: ignore[union-attr]
    assert await stage.gapped(offer)
    assert await stage.run("a") == 0
    await stage.waiting("a", 0)
    assert not await stage.gapped(offer)


async def refused_bytes_may_come_again(stage: Stage) -> None:
    await stage.open()
    offer = stage.offer("a", 0)
    counts = {offer.sender: Count(0, "0xb", 1)}
    for _ in range(2):
        [answer] = await stage.mempool.admit([offer], counts, owner="me")
        assert answer.grant is not None
        await stage.done(answer.grant, "refuse")
    [answer] = await stage.mempool.admit([offer], counts)
    assert answer.word == "admitted"
    assert await stage.state(offer) == State.WAITING


async def repeated_calls_answer_the_same(stage: Stage) -> None:
    """As after a lost reply: the call has the same name."""
    await stage.open()
    await stage.waiting("b", 0, 1)
    names = ["admit", "admit", "take", "take", "done", "done"]
    stage.mempool._token = lambda: names.pop(0)  # type: ignore[attr-defined]
    offers = [stage.offer("a", 0), stage.offer("a", 1), stage.offer("a", 1, 11)]
    counts = {offers[0].sender: Count(0, "0xb", 1)}

    async def admit() -> list[Admitted]:
        return await stage.mempool.admit(offers, counts, owner="me")

    first, second = await admit(), await admit()
    assert first[0].grant is not None
    assert [a.word for a in first] == ["admitted", "admitted", "admitted"]
    assert (second[0].word, second[0].grant) == ("admitted", first[0].grant)
    taken = await stage.mempool.take("me", 4)
    assert len(taken.grants) == 1
    assert (await stage.mempool.take("me", 4)).grants == taken.grants
    done = await stage.done(first[0].grant)
    assert done.grant is not None
    assert (await stage.done(first[0].grant)).grant == done.grant
    assert done.grant.hash == offers[2].hash
