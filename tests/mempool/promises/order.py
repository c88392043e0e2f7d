"""Who is sent when: one for each sender, in nonce order, the dearest sender first."""

from __future__ import annotations

from tests.mempool.stage import Stage, address
from txmanager.core.admission import Count, End, Grant, State


async def dearest_head_is_sent_first_and_the_earliest_of_equals(stage: Stage) -> None:
    await stage.open(executors=1)
    for name, price in (("a", 5), ("b", 9), ("c", 9), ("d", 7)):
        await stage.waiting(name, 0, price)
    senders = []
    [first] = await stage.take(4)
    grant: Grant | None = first
    while grant is not None:
        senders.append(grant.sender)
        grant = (await stage.done(grant)).grant
    assert senders == [address(name) for name in "bcda"]


async def admit_grants_only_when_no_better_head_waits(stage: Stage) -> None:
    await stage.open(executors=2)
    await stage.waiting("a", 0, 9)
    _, answer = await stage.admit("b", 0, 8, owner="me")
    assert answer.grant is None
    _, answer = await stage.admit("c", 0, 10, owner="me")
    assert answer.grant is not None
    _, answer = await stage.admit("d", 0, 9, owner="me")
    assert answer.grant is None
    [grant] = await stage.take(4)
    assert grant.sender == address("a")


async def batch_grants_its_dearest_heads_first(stage: Stage) -> None:
    await stage.open(executors=1)
    offers = [stage.offer("a", 0, 1), stage.offer("b", 0, 9)]
    counts = {o.sender: Count(0, "0xb", 1) for o in offers}
    answers = await stage.mempool.admit(offers, counts, owner="me")
    assert [a.grant is not None for a in answers] == [False, True]


async def one_sender_has_one_under_way_and_others_go_beside_it(stage: Stage) -> None:
    await stage.open()
    first = await stage.granted("a", 0)
    await stage.waiting("a", 1, owner="me")
    assert await stage.take(4) == []
    await stage.granted("b", 0)
    done = await stage.done(first)
    assert done.grant is not None
    assert (done.grant.sender, done.grant.nonce) == (first.sender, 1)


async def nonces_give_the_order_not_arrival(stage: Stage) -> None:
    await stage.open()
    late = [await stage.waiting("a", n, 100 - n, owner="me") for n in (2, 1)]
    assert await stage.take(4) == []
    grant = await stage.granted("a", 0)
    nonces = [grant.nonce]
    while (grant_or_none := (await stage.done(grant)).grant) is not None:
        grant = grant_or_none
        nonces.append(grant.nonce)
    assert nonces == [0, 1, 2]
    assert [await stage.state(o) for o in late] == [State.SENT, State.SENT]


async def executors_bound_all_instances_together(stage: Stage) -> None:
    await stage.open(executors=2)
    await stage.mempool.heartbeat("you")
    for name in "abc":
        await stage.waiting(name, 0)
    assert len(await stage.take(1)) == 1
    assert len(await stage.take(4, "you")) == 1
    assert await stage.take(4) == []
    _, answer = await stage.admit("d", 0, 99, owner="me")
    assert answer.grant is None


async def kept_bytes_stop_grants_until_something_ends(stage: Stage) -> None:
    await stage.open(kept_bytes=160, order="nonce")
    sent = await stage.sent("a", 0, size=100)
    await stage.waiting("b", 0, size=61, owner="me")
    assert await stage.take() == []
    await stage.done(await stage.granted("c", 0, 99, size=60), "refuse", more=False)
    await stage.observe("a", 1)
    await stage.mempool.end([End(sent.hash, "final")])
    assert len(await stage.take()) == 1


async def one_sender_keeps_its_share_of_the_bytes_and_others_go_on(stage: Stage) -> None:
    await stage.open(kept_bytes=1_600)
    first = await stage.sent("a", 0, size=60)
    await stage.waiting("a", 1, 99, size=41, owner="me")
    assert await stage.take() == []
    assert (await stage.granted("b", 0, size=41)).nonce == 0
    await stage.observe("a", 1)
    await stage.mempool.end([End(first.hash, "final")])
    [grant] = await stage.take()
    assert grant.nonce == 1


async def replacement_of_a_head_changes_its_place_in_line(stage: Stage) -> None:
    await stage.open(executors=1)
    await stage.waiting("a", 0, 5)
    await stage.waiting("b", 0, 6)
    await stage.waiting("a", 0, 7)
    [grant] = await stage.take()
    assert (grant.sender, (await stage.take())) == (address("a"), [])


async def next_nonce_waits_for_the_count_when_told_so(stage: Stage) -> None:
    await stage.open(next_after="count")
    first = await stage.granted("a", 0)
    await stage.waiting("a", 1)
    assert (await stage.done(first)).grant is None
    assert await stage.take() == []
    await stage.observe("a", 1)
    assert [g.nonce for g in await stage.take()] == [1]


async def arrival_order_sends_gaps_in_the_order_they_came(stage: Stage) -> None:
    await stage.open(order="arrival")
    first = await stage.granted("a", 5)
    await stage.waiting("a", 9)
    await stage.waiting("a", 3)
    second = (await stage.done(first)).grant
    assert second is not None
    third = (await stage.done(second)).grant
    assert third is not None
    assert [first.nonce, second.nonce, third.nonce] == [5, 9, 3]


async def without_order_everything_is_out_at_once(stage: Stage) -> None:
    await stage.open(order="none")
    offers = [await stage.waiting("a", n, owner="me") for n in (0, 1, 5)]
    assert [await stage.state(o) for o in offers] == [State.SENT] * 3
    assert await stage.run("a") == 2
    assert await stage.take() == []
    assert await stage.mempool.reopen([offers[2].hash]) == [offers[2].hash]
    assert [g.nonce for g in await stage.take()] == [5]


async def replacement_of_a_sent_nonce_goes_before_what_waits(stage: Stage) -> None:
    await stage.open()
    for nonce in (0, 1):
        await stage.sent("a", nonce)
    await stage.waiting("a", 2, owner="")
    grant = await stage.granted("a", 0, 11)
    done = await stage.done(grant)
    assert done.grant is not None
    assert done.grant.nonce == 2


async def refused_replacement_leaves_the_sent_bytes_followed(stage: Stage) -> None:
    await stage.open()
    old = await stage.sent("a", 0)
    new = await stage.granted("a", 0, 11)
    await stage.done(new, "refuse", message="replacement transaction underpriced")
    assert await stage.state(old) == State.SENT
    assert await stage.state(new) == "refused"
    assert await stage.run("a") == 1
    await stage.granted("a", 1)


async def sent_bytes_go_again_after_a_while_lowest_nonce_first(stage: Stage) -> None:
    await stage.open(resend_ms=3_000)
    for nonce in (0, 1):
        await stage.sent("a", nonce)
    await stage.advance(2_000, "me")
    taken = await stage.mempool.take("me", 4)
    assert (taken.grants, taken.next_ms) == ((), 1_000)
    await stage.advance(1_000, "me")
    [first] = await stage.take(4)
    second = (await stage.done(first)).grant
    assert second is not None
    assert [(g.nonce, g.again, g.tries) for g in (first, second)] == [(0, True, 2), (1, True, 2)]
    assert (await stage.done(second)).grant is None
