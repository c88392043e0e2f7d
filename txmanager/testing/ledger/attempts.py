"""Write-ahead: what may be recorded, what never, and that a batch is all or nothing."""

from __future__ import annotations

import pytest

from txmanager.core.errors import Fenced, Refused, RolledBack
from txmanager.core.ledger import Entry, WriteAhead
from txmanager.core.models import Fence, Purpose
from txmanager.core.states import LaneState, Status
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import BASE, LONG_MS, Stage


async def taken(stage: Stage, fence: Fence, count: int) -> list[WriteAhead]:
    """First attempts for freshly queued intents, not yet recorded."""
    await stage.queued(fence.lane, count)
    entries = await stage.ledger.take(fence, count)
    start = await stage.cursor(fence.lane)
    return [stage.write(Entry(t.intent, t.life, 0), start + n, position=t.position) for n, t in enumerate(entries)]


async def refused(stage: Stage, fence: Fence, batch: list[WriteAhead], why: str, *, cursor: int | None = None) -> None:
    """The batch is refused with this reason, and nothing of it was written."""
    at = await stage.cursor(fence.lane)
    before = [await stage.ledger.read(w.id) for w in batch]
    with pytest.raises(Refused, match=why):
        await stage.ledger.record_attempts(fence, at if cursor is None else cursor, batch)
    assert await stage.cursor(fence.lane) == at
    assert [await stage.ledger.read(w.id) for w in batch] == before


def resign(stage: Stage, write: WriteAhead, nonce: int, deaths: list[str], *, counted: bool = False) -> WriteAhead:
    entry = Entry(stage.intent(write.id.key), write.life, 0)
    return stage.write(entry, nonce, Purpose.RESIGN, position=write.position, deaths=deaths, counted=counted)


def other(stage: Stage, write: WriteAhead, nonce: int, purpose: Purpose, hash: str = "") -> WriteAhead:
    entry = Entry(stage.intent(write.id.key), write.life, 0)
    return stage.write(entry, nonce, purpose, position=write.position, hash=hash or f"{purpose}{nonce}")


@promise
async def write_ahead_moves_cursor_status_and_keeps_every_byte(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    batch = await taken(stage, fence, 2)
    assert await stage.ledger.record_attempts(fence, BASE, batch) == BASE + 2
    record = await stage.read(batch[1])
    assert record.status is Status.INFLIGHT
    assert record.attempts == (batch[1].attempt,)
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.cursor, view.signed_upto, view.unfinished) == (BASE + 2, batch[1].position, 2)
    inflight = [e for e in await stage.ledger.events(fence.lane) if e.status is Status.INFLIGHT]
    assert [(e.intent, e.tx_hash) for e in inflight] == [(w.id, w.attempt.hash) for w in batch]


@promise
async def write_ahead_again_is_recognised_and_changes_nothing(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    batch = await taken(stage, fence, 2)
    await stage.ledger.record_attempts(fence, BASE, batch)
    before = await stage.ledger.unfinished(fence)
    assert await stage.ledger.record_attempts(fence, BASE, batch) == BASE + 2
    assert await stage.ledger.unfinished(fence) == before
    more = await taken(stage, fence, 1)
    await stage.ledger.record_attempts(fence, BASE + 2, more)
    # a very late replay answers where the cursor stands now
    assert await stage.ledger.record_attempts(fence, BASE, batch) == BASE + 3
    assert len([s for _, s in await stage.statuses(fence.lane) if s == "inflight"]) == 3


@promise
async def stale_owner_cannot_write_ahead(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    batch = await taken(stage, old, 1)
    new = await stage.take_over(lane, old)
    with pytest.raises(Fenced, match="belongs to w2"):
        await stage.ledger.record_attempts(old, BASE, batch)
    assert await stage.ledger.unfinished(new) == []
    assert await stage.cursor(lane) == BASE


@promise
async def stale_owner_is_fenced_even_when_its_attempt_was_recorded(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    batch = await stage.inflight(old)
    await stage.take_over(lane, old)
    with pytest.raises(Fenced):
        await stage.ledger.record_attempts(old, BASE, batch)


@promise
async def nothing_is_signed_on_a_server_with_another_history_until_somebody_vouches(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    known = await stage.inflight(fence)
    batch = await taken(stage, fence, 1)
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    await stage.ledger.vouch(fence, view.history_id, "elsewhere")
    with pytest.raises(RolledBack) as raised:
        await stage.ledger.record_attempts(fence, BASE + 1, batch)
    assert (raised.value.stored, raised.value.found) == ("elsewhere", view.history_id)
    # what is recorded already is not signing: its replay is answered
    assert await stage.ledger.record_attempts(fence, BASE, known) == BASE + 1
    await stage.ledger.vouch(fence, "elsewhere", view.history_id)
    assert await stage.ledger.record_attempts(fence, BASE + 1, batch) == BASE + 2


@promise
async def quarantined_lane_signs_nothing_at_all(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    firsts = await taken(stage, fence, 1)
    await stage.ledger.set_lane(fence.lane, LaneState.QUARANTINED, "foreign_use")
    await refused(stage, fence, firsts, "the lane is quarantined")
    await refused(stage, fence, [resign(stage, write, BASE + 1, [write.attempt.name])], "the lane is quarantined")
    await refused(stage, fence, [other(stage, write, BASE + 1, Purpose.NOOP)], "the lane is quarantined")


@promise
async def paused_lane_signs_no_first_attempts_but_finishes_what_began(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    firsts = await taken(stage, fence, 1)
    await stage.ledger.set_lane(fence.lane, LaneState.PAUSED, "funds")
    await refused(stage, fence, firsts, "the lane is paused")
    again = resign(stage, write, BASE + 1, [write.attempt.name])
    assert await stage.ledger.record_attempts(fence, BASE + 1, [again]) == BASE + 2


@promise
async def write_ahead_from_another_cursor_is_refused(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    batch = await taken(stage, fence, 1)
    await refused(stage, fence, batch, f"stands at {BASE}, not at {BASE + 1}", cursor=BASE + 1)
    await refused(stage, fence, batch, f"stands at {BASE}, not at {BASE - 1}", cursor=BASE - 1)


@promise
async def lane_without_a_baseline_signs_nothing(stage: Stage) -> None:
    lane = await stage.lane()
    lease = await stage.ledger.lease(lane, "w1", "t1", LONG_MS)
    assert lease.fence is not None
    [entry] = await stage.queued(lane)
    [t] = await stage.ledger.take(lease.fence, 1)
    with pytest.raises(Refused, match="stands at nothing"):
        await stage.ledger.record_attempts(lease.fence, 1, [stage.write(entry, 1, position=t.position)])


@promise
async def first_attempts_are_a_prefix_of_the_queue(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    one, two, three = await taken(stage, fence, 3)
    await refused(stage, fence, [two], "not the oldest queued entries")
    await refused(stage, fence, [one, three], "not the oldest queued entries")
    swapped = [
        WriteAhead(two.id, two.life, two.position, one.attempt),
        WriteAhead(one.id, one.life, one.position, two.attempt),
    ]
    await refused(stage, fence, swapped, "not the oldest queued entries")
    assert await stage.ledger.record_attempts(fence, BASE, [one, two]) == BASE + 2


@promise
async def first_attempt_of_a_signed_entry_is_refused(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    twice = stage.write(Entry(stage.intent(write.id.key), write.life, 0), BASE + 1, position=write.position)
    await refused(stage, fence, [twice], "not the oldest queued entries")
    # an entry that is next in the queue does not help a record that is not queued
    [nxt] = await taken(stage, fence, 1)
    mixed = WriteAhead(write.id, write.life, nxt.position, nxt.attempt)
    await refused(stage, fence, [mixed], "is inflight, not queued")


@promise
async def nonces_of_a_batch_grow_from_the_cursor(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    one, two = await taken(stage, fence, 2)
    entry = [Entry(stage.intent(w.id.key), w.life, 0) for w in (one, two)]
    low = [stage.write(entry[0], BASE - 1, position=one.position)]
    same = [one, stage.write(entry[1], BASE, hash="x", position=two.position)]
    short = [stage.write(entry[0], 99, position=one.position)]
    for batch in (low, same, short):
        await refused(stage, fence, batch, "is below the cursor")
    gap = [stage.write(entry[0], BASE + 5, position=one.position)]
    assert await stage.ledger.record_attempts(fence, BASE, gap) == BASE + 6


@promise
async def one_bad_attempt_refuses_the_whole_batch(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    one, two = await taken(stage, fence, 2)
    ghost = WriteAhead(two.id, "another-life", two.position, two.attempt)
    await refused(stage, fence, [one, ghost], "no such record")
    assert await stage.ledger.unfinished(fence) == []


@promise
async def retired_record_gets_no_attempt(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    late = resign(stage, write, BASE + 1, [write.attempt.name])
    await refused(stage, fence, [late], "is done, not inflight")
    await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9))
    await refused(stage, fence, [late], "no such record")


@promise
async def queued_entry_gets_only_a_first_attempt(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await taken(stage, fence, 1)
    for purpose in (Purpose.RESIGN, Purpose.REPLACE, Purpose.NOOP):
        await refused(stage, fence, [other(stage, write, BASE, purpose)], "is queued, not inflight")


@promise
async def resign_needs_a_proof_for_every_live_attempt(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    await refused(stage, fence, [resign(stage, write, BASE + 1, [])], "not proven dead")
    await refused(stage, fence, [resign(stage, write, BASE + 1, ["1:other"])], "not proven dead")
    second = resign(stage, write, BASE + 1, [write.attempt.name], counted=True)
    assert await stage.ledger.record_attempts(fence, BASE + 1, [second]) == BASE + 2
    record = await stage.read(write)
    assert [(a.name, a.dead) for a in record.attempts] == [(write.attempt.name, True), (second.attempt.name, False)]
    assert record.attempts[0].proof == {"cause": "overtaken"}
    assert record.resigns == 1
    # the old proof stands; the new attempt needs one of its own
    await refused(stage, fence, [resign(stage, write, BASE + 2, [write.attempt.name])], "not proven dead")
    third = resign(stage, write, BASE + 2, [second.attempt.name])
    assert await stage.ledger.record_attempts(fence, BASE + 2, [third]) == BASE + 3
    assert (await stage.read(write)).resigns == 1


@promise
async def proof_never_covers_the_attempt_it_comes_with(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    own = f"{BASE + 1}:hash{BASE + 1}"
    second = resign(stage, write, BASE + 1, [write.attempt.name, own])
    await stage.ledger.record_attempts(fence, BASE + 1, [second])
    assert [a.dead for a in (await stage.read(write)).attempts] == [True, False]
    await refused(stage, fence, [resign(stage, write, BASE + 2, [])], "not proven dead")


@promise
async def two_attempts_for_one_intent_in_one_batch_are_refused(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    dead = [write.attempt.name]
    twice = [resign(stage, write, BASE + 1, dead), resign(stage, write, BASE + 2, dead)]
    await refused(stage, fence, twice, "in the batch twice")


@promise
async def held_intent_may_be_resigned_and_is_inflight_again(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    await stage.ledger.resolve(write.id, {"verb": "resign"})
    again = resign(stage, write, BASE + 1, [write.attempt.name])
    await stage.ledger.record_attempts(fence, BASE + 1, [again])
    record = await stage.read(write)
    assert (record.status, record.hold) == (Status.INFLIGHT, None)
    assert [s for _, s in await stage.statuses(fence.lane)] == ["queued", "inflight", "held", "inflight"]


@promise
async def held_intent_gets_no_attempt_that_nobody_asked_for(stage: Stage) -> None:
    """What was decided before the hold, and not written ahead, is an operator's to decide now."""
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    await refused(stage, fence, [other(stage, write, BASE + 1, Purpose.NOOP)], "nobody asked for an attempt")
    again = resign(stage, write, BASE + 1, [write.attempt.name])
    await refused(stage, fence, [again], "nobody asked for an attempt")
    await stage.ledger.cancel(write.id)
    assert await stage.ledger.record_attempts(fence, BASE + 1, [other(stage, write, BASE + 1, Purpose.NOOP)])


@promise
async def replacement_shares_the_nonce_of_a_live_attempt(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    bump = other(stage, write, BASE, Purpose.REPLACE)
    assert await stage.ledger.record_attempts(fence, BASE + 1, [bump]) == BASE + 1
    assert await stage.ledger.record_attempts(fence, BASE + 1, [bump]) == BASE + 1
    assert {a.hash for a in (await stage.read(write)).attempts} == {write.attempt.hash, bump.attempt.hash}
    await refused(stage, fence, [other(stage, write, BASE + 1, Purpose.REPLACE)], "no live attempt at nonce")
    assert [s for _, s in await stage.statuses(fence.lane)] == ["queued", "inflight"]


@promise
async def replacement_of_a_dead_nonce_is_refused(stage: Stage) -> None:
    """Its nonce may never have been used up: new bytes at it could land beside the re-signed ones."""
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    await stage.ledger.record_attempts(fence, BASE + 1, [resign(stage, write, BASE + 1, [write.attempt.name])])
    await refused(stage, fence, [other(stage, write, BASE, Purpose.REPLACE)], "no live attempt at nonce")


@promise
async def held_intent_is_not_replaced(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    await stage.ledger.resolve(write.id, {"verb": "track"})
    await refused(stage, fence, [other(stage, write, BASE, Purpose.REPLACE)], "is held, not inflight")


@promise
async def noop_is_kept_on_the_record_it_kills_and_leaves_its_state(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    await stage.ledger.resolve(write.id, {"verb": "kill"})
    same_nonce = other(stage, write, BASE, Purpose.NOOP)
    assert await stage.ledger.record_attempts(fence, BASE + 1, [same_nonce]) == BASE + 1
    next_nonce = other(stage, write, BASE + 1, Purpose.NOOP)
    assert await stage.ledger.record_attempts(fence, BASE + 1, [next_nonce]) == BASE + 2
    record = await stage.read(write)
    assert (record.status, record.hold is not None) == (Status.HELD, True)
    assert [a.hash for a in record.effects] == [write.attempt.hash]
    assert len(record.attempts) == 3
    await refused(stage, fence, [other(stage, write, BASE - 5, Purpose.NOOP)], "is below the cursor")


@promise
async def attempts_read_back_in_nonce_order_whatever_the_clocks_say(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    for n in range(1, 12):
        last = (await stage.read(write)).attempts[-1]
        await stage.ledger.record_attempts(fence, BASE + n, [resign(stage, write, BASE + n, [last.name])])
    assert [a.nonce for a in (await stage.read(write)).attempts] == [BASE + n for n in range(12)]


@promise
async def empty_write_ahead_still_checks(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    assert await stage.ledger.record_attempts(fence, BASE, []) == BASE
    await refused(stage, fence, [], "stands at", cursor=BASE + 1)


@promise
async def write_ahead_that_is_half_recorded_is_refused(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [one] = await stage.inflight(fence)
    [two] = await taken(stage, fence, 1)
    await refused(stage, fence, [one, two], "stands at", cursor=BASE)
    assert [r.id for r in await stage.ledger.unfinished(fence)] == [one.id]


@promise
async def write_ahead_of_another_life_is_not_a_replay(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    ghost = WriteAhead(write.id, "another-life", write.position, write.attempt)
    await refused(stage, fence, [ghost], "stands at", cursor=BASE)


@promise
async def write_ahead_of_a_missing_record_is_refused(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    entry = await stage.entry(fence.lane)
    await refused(stage, fence, [stage.write(entry, BASE, Purpose.RESIGN)], "no such record")


@promise
async def resign_at_a_used_nonce_is_refused(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    again = other(stage, write, BASE, Purpose.RESIGN)
    proven = WriteAhead(again.id, again.life, again.position, again.attempt, {write.attempt.name: {}})
    await refused(stage, fence, [proven], "is below the cursor")
