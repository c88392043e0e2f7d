"""Lease, renew, release, take, vouch: what an owner may rely on, and what a stale one can no longer do."""

from __future__ import annotations

import pytest

from txmanager.core.errors import Fenced, InvalidInput
from txmanager.core.ledger import Entry
from txmanager.core.models import Fence
from txmanager.core.states import LaneState
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import BASE, LONG_MS, Stage
from txmanager.testing.waiting import until


@promise
async def lease_has_one_owner_and_says_who_for_how_long(stage: Stage) -> None:
    lane = await stage.lane()
    first = await stage.ledger.lease(lane, "w1", "t1", LONG_MS)
    assert first.fence == Fence(lane, "w1", 1, "t1")
    assert first.lane is not None
    assert (first.lane.owner, first.lane.epoch) == ("w1", 1)
    second = await stage.ledger.lease(lane, "w2", "t2", LONG_MS)
    assert (second.word, second.owner, second.fence) == ("held", "w1", None)
    assert LONG_MS - 30_000 < second.left_ms <= LONG_MS


@promise
async def lease_again_with_the_same_token_is_the_same_lease(stage: Stage) -> None:
    lane = await stage.lane()
    first = await stage.ledger.lease(lane, "w1", "t1", LONG_MS)
    again = await stage.ledger.lease(lane, "w1", "t1", LONG_MS)
    assert again.fence == first.fence
    with pytest.raises(InvalidInput, match="token"):
        await stage.ledger.lease(lane, "w1", "", LONG_MS)


@promise
async def lease_runs_out_and_the_epoch_grows(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane, "w1", lease_ms=20)

    async def taken() -> bool:
        return (await stage.ledger.lease(lane, "w2", "t2", LONG_MS)).word == "leased"

    await until(taken, every=0.005)
    assert (await stage.ledger.renew([old], LONG_MS))[0].word == "fenced"
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.owner, view.epoch) == ("w2", 2)


@promise
async def renewed_lease_does_not_run_out(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane, lease_ms=1)
    assert (await stage.ledger.renew([fence], LONG_MS))[0].word == "renewed"
    held = await stage.ledger.lease(lane, "w2", "t2", LONG_MS)
    assert (held.word, held.left_ms > LONG_MS - 30_000) == ("held", True)


@promise
async def lane_nobody_registered_or_closed_is_not_leased(stage: Stage) -> None:
    assert (await stage.ledger.lease("near:net:never:1", "w1", "t1", LONG_MS)).word == "unknown"
    lane = await stage.lane()
    await stage.ledger.set_lane(lane, LaneState.DRAINING)
    await stage.ledger.set_lane(lane, LaneState.CLOSED)
    assert (await stage.ledger.lease(lane, "w1", "t1", LONG_MS)).word == "closed"


@promise
async def lane_of_a_newer_schema_is_not_leased(stage: Stage) -> None:
    lane = await stage.lane()
    await stage.expire("schema", lane=lane)
    assert (await stage.ledger.lease(lane, "w1", "t1", LONG_MS)).word == "schema"
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.owner, view.epoch) == ("", 0)


@promise
async def renew_answers_depth_state_and_asks_of_each_lane(stage: Stage) -> None:
    a, b = await stage.lane("near:net:a:1"), await stage.lane("near:net:b:2")
    fence_a, fence_b = await stage.own(a), await stage.own(b)
    await stage.queued(b, 2)
    await stage.ledger.set_lane(b, LaneState.PAUSED, "funds")
    first, second = await stage.ledger.renew([fence_a, fence_b], LONG_MS)
    assert (first.word, first.depth, first.state, first.asks, first.moved) == ("renewed", 0, LaneState.ACTIVE, 0, False)
    assert (second.word, second.depth, second.state, second.asks) == ("renewed", 2, LaneState.PAUSED, 1)


@promise
async def renew_of_a_stale_owner_names_the_new_one(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane, "w1")
    new = await stage.take_over(lane, old)
    assert new.epoch == old.epoch + 1
    [answer] = await stage.ledger.renew([old], 1)
    assert (answer.word, answer.owner, answer.epoch) == ("fenced", "w2", new.epoch)
    # it must not have shortened the lease of the new owner either
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert view.lease_ms > LONG_MS / 2


@promise
async def fence_needs_both_epoch_and_token(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    wrong_token = Fence(lane, "w1", fence.epoch, "guess")
    wrong_epoch = Fence(lane, "w1", fence.epoch + 1, fence.token)
    answers = await stage.ledger.renew([wrong_token, wrong_epoch, fence], LONG_MS)
    assert [a.word for a in answers] == ["fenced", "fenced", "renewed"]


@promise
async def owner_of_a_lane_that_is_gone_is_fenced_by_nobody(stage: Stage) -> None:
    ghost = Fence("near:net:never:1", "w1", 1, "t1")
    [answer] = await stage.ledger.renew([ghost], LONG_MS)
    assert (answer.word, answer.owner, answer.epoch) == ("fenced", "", 0)
    with pytest.raises(Fenced, match="nobody"):
        await stage.ledger.take(ghost, 1)
    assert not await stage.ledger.release(ghost)


@promise
async def released_lane_is_free_at_once_and_a_repeat_is_answered_the_same(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    assert await stage.ledger.release(fence)
    assert await stage.ledger.release(fence)
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.owner, view.lease_ms, view.epoch) == ("", 0, 1)
    with pytest.raises(Fenced):
        await stage.ledger.take(fence, 1)
    assert (await stage.own(lane, "w2")).epoch == 2
    assert not await stage.ledger.release(fence)
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert view.owner == "w2"


@promise
async def released_lane_can_be_leased_before_its_old_time_is_over(stage: Stage) -> None:
    lane = await stage.lane()
    await stage.ledger.release(await stage.own(lane))
    assert (await stage.ledger.lease(lane, "w2", "t2", LONG_MS)).word == "leased"


@promise
async def fence_of_a_released_lane_is_not_guessed(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    await stage.ledger.release(fence)
    assert not await stage.ledger.release(Fence(lane, "w1", fence.epoch, "guess"))


@promise
async def baseline_is_set_once_and_raised_by_an_operator_only(stage: Stage) -> None:
    lane = await stage.lane()
    lease = await stage.ledger.lease(lane, "w1", "t1", LONG_MS)
    assert lease.fence is not None
    fence = lease.fence
    assert await stage.ledger.baseline(fence, BASE) == BASE
    assert await stage.ledger.baseline(fence, BASE + 7) == BASE
    assert await stage.ledger.baseline(fence, BASE - 7, operator=True) == BASE
    assert await stage.ledger.baseline(fence, 99, operator=True) == BASE
    assert await stage.ledger.baseline(fence, BASE * 10, operator=True) == BASE * 10
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.cursor, view.baseline) == (BASE * 10, BASE * 10)


@promise
async def operator_vouches_below_the_cursor_without_moving_it(stage: Stage) -> None:
    """Where gaps block, a foreign nonce lies below the cursor: it is vouched for, and nothing is skipped."""
    lane = await stage.lane()
    fence = await stage.own(lane)
    await stage.inflight(fence, 3)
    for vouched, kept in ((BASE + 2, BASE + 2), (BASE + 1, BASE + 2)):
        assert await stage.ledger.baseline(fence, vouched, operator=True) == BASE + 3
        view = await stage.ledger.lane(lane)
        assert view is not None
        assert (view.cursor, view.baseline) == (BASE + 3, kept)


@promise
async def stale_owner_cannot_set_the_baseline(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    await stage.take_over(lane, old)
    with pytest.raises(Fenced, match="belongs to w2"):
        await stage.ledger.baseline(old, BASE + 50, operator=True)
    assert await stage.cursor(lane) == BASE


@promise
async def vouch_changes_the_history_id_only_from_the_one_that_was_seen(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert not view.moved
    found = view.history_id
    assert await stage.ledger.vouch(fence, found, "elsewhere")
    assert (await stage.ledger.renew([fence], LONG_MS))[0].moved
    assert not await stage.ledger.vouch(fence, "guess", "other")
    assert await stage.ledger.vouch(fence, "elsewhere", found)
    assert await stage.ledger.vouch(fence, "elsewhere", found)
    assert not (await stage.ledger.renew([fence], LONG_MS))[0].moved


@promise
async def lease_never_overwrites_the_history_id(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    view = await stage.ledger.lane(lane)
    assert view is not None
    await stage.ledger.vouch(fence, view.history_id, "elsewhere")
    await stage.ledger.release(fence)
    lease = await stage.ledger.lease(lane, "w2", "t2", LONG_MS)
    assert lease.lane is not None
    assert lease.lane.moved
    assert (lease.lane.history_id, lease.lane.found_history_id) == ("elsewhere", view.history_id)
    await stage.lane(lane)
    again = await stage.ledger.lane(lane)
    assert again is not None
    assert again.moved


@promise
async def stale_owner_cannot_vouch(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    await stage.take_over(lane, old)
    view = await stage.ledger.lane(lane)
    assert view is not None
    with pytest.raises(Fenced):
        await stage.ledger.vouch(old, view.history_id, "elsewhere")
    again = await stage.ledger.lane(lane)
    assert again is not None
    assert not again.moved


# -- take


@promise
async def take_hands_out_in_order_of_acceptance(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    entries = await stage.queued(lane, 5)
    keys = [e.intent.id for e in entries]
    assert [t.intent.id for t in await stage.ledger.take(fence, 2)] == keys[:2]
    assert [t.intent.id for t in await stage.ledger.take(fence, 5)] == keys
    assert await stage.ledger.take(fence, 0) == []


@promise
async def take_again_answers_the_same_until_written_ahead(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    await stage.queued(lane, 3)
    first = await stage.ledger.take(fence, 2)
    assert await stage.ledger.take(fence, 2) == first
    batch = [stage.write(Entry(t.intent, t.life, 0), BASE + n, position=t.position) for n, t in enumerate(first[:1])]
    await stage.ledger.record_attempts(fence, BASE, batch)
    rest = await stage.ledger.take(fence, 5)
    assert rest[0] == first[1]
    assert len(rest) == 2


@promise
async def take_of_a_paused_or_quarantined_lane_is_empty(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    await stage.queued(lane, 2)
    for state in (LaneState.PAUSED, LaneState.QUARANTINED):
        await stage.ledger.set_lane(lane, state)
        assert await stage.ledger.take(fence, 9) == []
    await stage.ledger.set_lane(lane, LaneState.DRAINING)
    assert len(await stage.ledger.take(fence, 9)) == 2


@promise
async def stale_owner_can_not_take_and_parks_nothing(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane, "w1")
    new = await stage.take_over(lane, old)
    entries = await stage.queued(lane, 3)
    with pytest.raises(Fenced, match="belongs to w2") as fenced:
        await stage.ledger.take(old, 2)
    assert (fenced.value.owner, fenced.value.epoch) == ("w2", new.epoch)
    assert [t.intent.id for t in await stage.ledger.take(new, 9)] == [e.intent.id for e in entries]


@promise
async def take_over_gets_the_dead_owners_entries_first_in_order(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane, "w1")
    early = await stage.queued(lane, 3)
    assert len(await stage.ledger.take(old, 2)) == 2
    late = await stage.queued(lane, 2)
    new = await stage.take_over(lane, old)
    assert [t.intent.id for t in await stage.ledger.take(new, 9)] == [e.intent.id for e in (*early, *late)]


@promise
async def unfinished_are_the_records_with_attempts_by_nonce(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    batch = await stage.inflight(fence, 12)
    await stage.queued(lane, 2)
    await stage.ledger.settle(fence, [stage.done(batch[3])])
    found = await stage.ledger.unfinished(fence)
    assert [r.id for r in found] == [w.id for n, w in enumerate(batch) if n != 3]
    assert found[0].intent.payload == {"to": "bob"}
    assert found[0].attempts == (batch[0].attempt,)


@promise
async def stale_owner_cannot_read_the_unfinished(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    await stage.inflight(old)
    new = await stage.take_over(lane, old)
    with pytest.raises(Fenced):
        await stage.ledger.unfinished(old)
    assert len(await stage.ledger.unfinished(new)) == 1


@promise
async def entry_signed_without_being_taken_is_not_handed_out(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [first] = await stage.queued(lane)
    record = await stage.read(first)
    [second] = await stage.queued(lane)
    await stage.ledger.record_attempts(fence, BASE, [stage.write(first, BASE, position=record.position)])
    assert [t.intent.id for t in await stage.ledger.take(fence, 1)] == [second.intent.id]


@promise
async def entries_of_one_millisecond_are_told_apart(stage: Stage) -> None:
    """Ids of a batch differ in their second number only; ten comes after nine."""
    lane = await stage.lane()
    fence = await stage.own(lane)
    entries: list[Entry] = []
    cut = None
    while cut is None:  # a clock that ticks within the batch may spoil one
        entries += await stage.queued(lane, 40)
        ids = [(await stage.read(entry)).position for entry in entries]
        cut = next((n for n, id in enumerate(ids[:-1]) if id.endswith("-9") and ids[n + 1].endswith("-10")), None)
    signed = [
        stage.write(entry, BASE + n, position=id)
        for n, (entry, id) in enumerate(zip(entries[: cut + 1], ids, strict=False))
    ]
    await stage.ledger.record_attempts(fence, BASE, signed)
    left = [t.intent.id for t in await stage.ledger.take(fence, len(entries))]
    assert left == [e.intent.id for e in entries[cut + 1 :]]
