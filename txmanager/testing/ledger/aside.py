"""Set aside and reseal: what must not be signed leaves the lane's way, and comes back only by an operator's word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from txmanager.core.errors import Fenced, NotAllowed, Refused
from txmanager.core.ledger import Entry, Taken
from txmanager.core.models import Fence, Purpose
from txmanager.core.seal import BAD_SEAL
from txmanager.core.states import LaneState, Status
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import BASE, Stage

WHY = {"check": "wrong", "height": "183000000000123"}


async def sealed_entry(stage: Stage, lane: str, seal: str = "1.name.mac") -> Entry:
    entry = replace(await stage.entry(lane), seal=seal)
    [answer] = await stage.ledger.append(lane, [entry])
    assert answer.word == "appended"
    return entry


async def aside(stage: Stage, fence: Fence) -> Taken:
    await sealed_entry(stage, fence.lane)
    taken = (await stage.ledger.take(fence, 9))[-1]
    assert await stage.ledger.set_aside(fence, taken, BAD_SEAL, WHY)
    return taken


@promise
async def seal_and_limits_travel_with_the_intent_until_it_ends(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    entry = await stage.entry(fence.lane, replace(stage.intent(), limits={"max_cost": "18" + "0" * 24}))
    await stage.ledger.append(fence.lane, [replace(entry, seal="1.name.mac")])
    [taken] = await stage.ledger.take(fence, 9)
    assert (taken.seal, taken.intent) == ("1.name.mac", entry.intent)
    assert (await stage.read(entry)).seal == "1.name.mac"
    write = stage.write(entry, BASE, position=taken.position)
    await stage.ledger.record_attempts(fence, BASE, [write])
    [record] = await stage.ledger.unfinished(fence)
    assert (record.seal, record.intent) == ("1.name.mac", entry.intent)
    await stage.settle_one(fence, stage.done(write))
    await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9))
    final = await stage.read(entry)
    assert (final.seal, final.intent.limits) == ("", entry.intent.limits)


@promise
async def what_is_set_aside_is_held_whole_and_the_lane_goes_on(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    [after] = await stage.queued(fence.lane)
    assert [t.intent.id for t in await stage.ledger.take(fence, 9)] == [after.intent.id]
    [taken] = await stage.ledger.take(fence, 9)
    await stage.ledger.record_attempts(fence, BASE, [stage.write(after, BASE, position=taken.position)])
    record = await stage.read(Entry(bad.intent, bad.life, 0))
    assert (record.status, record.attempts, record.seal) == (Status.HELD, (), bad.seal)
    assert record.hold == {"reason": BAD_SEAL, "evidence": WHY}
    assert record.intent == bad.intent
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.depth, view.unfinished) == (1, 2)
    assert [r.id for r in await stage.ledger.unfinished(fence)] == [after.intent.id]
    assert await stage.ledger.set_aside(fence, bad, "again", {})
    assert (await stage.read(Entry(bad.intent, bad.life, 0))).hold == record.hold
    assert [s for k, s in await stage.statuses(fence.lane) if k == bad.intent.id.key] == ["queued", "held"]


@promise
async def stale_owner_cannot_set_aside(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    await sealed_entry(stage, lane)
    [taken] = await stage.ledger.take(old, 9)
    await stage.take_over(lane, old)
    with pytest.raises(Fenced):
        await stage.ledger.set_aside(old, taken, BAD_SEAL, WHY)
    assert (await stage.read(Entry(taken.intent, taken.life, 0))).status is Status.QUEUED


@promise
async def only_what_is_queued_is_set_aside(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    await sealed_entry(stage, fence.lane)
    [taken] = await stage.ledger.take(fence, 9)
    entry = Entry(taken.intent, taken.life, 0)
    await stage.ledger.record_attempts(fence, BASE, [stage.write(entry, BASE, position=taken.position)])
    assert not await stage.ledger.set_aside(fence, taken, BAD_SEAL, WHY)
    record = await stage.read(entry)
    assert (record.status, record.intent.payload) == (Status.INFLIGHT, taken.intent.payload)


@promise
async def setting_aside_an_entry_of_no_record_changes_none(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    entry = await sealed_entry(stage, fence.lane)
    [taken] = await stage.ledger.take(fence, 9)
    assert not await stage.ledger.set_aside(fence, replace(taken, position="1-1"), BAD_SEAL, WHY)
    assert not await stage.ledger.set_aside(fence, replace(taken, intent=stage.intent()), BAD_SEAL, WHY)
    assert (await stage.read(entry)).status is Status.QUEUED
    assert [s for _, s in await stage.statuses(fence.lane)] == ["queued"]


@promise
async def record_is_held_whatever_life_its_entry_names(stage: Stage) -> None:
    """Else somebody who changes the life of an entry makes an accepted intent vanish from its queue."""
    fence = await stage.own(await stage.lane())
    entry = await sealed_entry(stage, fence.lane)
    [taken] = await stage.ledger.take(fence, 9)
    assert await stage.ledger.set_aside(fence, replace(taken, life="another"), BAD_SEAL, WHY)
    record = await stage.read(entry)
    assert (record.status, record.life) == (Status.HELD, entry.life)


@promise
async def what_is_set_aside_gets_no_attempt_and_no_operators_word(stage: Stage) -> None:
    """Nothing of it is out: signing it again, killing or tracking it make no sense."""
    fence = await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    entry = Entry(bad.intent, bad.life, 0)
    for purpose in (Purpose.RESIGN, Purpose.NOOP):
        with pytest.raises(Refused):
            await stage.ledger.record_attempts(fence, BASE, [stage.write(entry, BASE, purpose)])
    with pytest.raises(NotAllowed):
        await stage.ledger.resolve(bad.intent.id, {"verb": "resign"})
    record = await stage.read(entry)
    assert (record.status, record.attempts, record.directive) == (Status.HELD, (), None)


@promise
async def cancel_of_what_was_set_aside_ends_it_at_once(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    record = await stage.ledger.cancel(bad.intent.id)
    assert (record.status, record.intent.payload) == (Status.CANCELLED, {})
    [left] = await stage.ledger.unretired(fence.lane, 9)
    assert await stage.ledger.retire([left]) == 1
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.depth, view.unfinished, view.unretired) == (0, 0, 0)


@promise
async def lane_with_something_set_aside_is_not_closed(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    await stage.ledger.set_lane(fence.lane, LaneState.DRAINING)
    with pytest.raises(NotAllowed):
        await stage.ledger.set_lane(fence.lane, LaneState.CLOSED)
    await stage.ledger.cancel(bad.intent.id)
    await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9))
    assert (await stage.ledger.set_lane(fence.lane, LaneState.CLOSED)).state is LaneState.CLOSED


@promise
async def resealed_intent_is_queued_again_behind_the_others(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    [other] = await stage.queued(fence.lane)
    record = await stage.read(Entry(bad.intent, bad.life, 0))
    assert await stage.ledger.reseal(record, "1.name.new")
    first, last = await stage.ledger.take(fence, 9)
    assert first.intent.id == other.intent.id
    assert (last.intent, last.life, last.seal) == (bad.intent, bad.life, "1.name.new")
    again = await stage.read(Entry(bad.intent, bad.life, 0))
    assert (again.status, again.hold, again.seal, again.position) == (
        Status.QUEUED,
        None,
        "1.name.new",
        last.position,
    )
    assert not await stage.ledger.reseal(record, "1.name.third")
    writes = [
        stage.write(Entry(t.intent, t.life, 0), BASE + n, position=t.position) for n, t in enumerate((first, last))
    ]
    assert await stage.ledger.record_attempts(fence, BASE, writes) == BASE + 2
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.depth, view.unfinished) == (2, 2)
    assert [s for k, s in await stage.statuses(fence.lane) if k == bad.intent.id.key] == [
        "queued",
        "held",
        "queued",
        "inflight",
    ]


@promise
async def resealed_intent_that_was_signed_is_in_flight_again(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    before = await stage.read(write)
    assert await stage.ledger.hold(fence, write.id, write.life, BAD_SEAL, WHY)
    asks = (await stage.ledger.renew([fence], 600_000))[0].asks
    assert await stage.ledger.reseal(await stage.read(write), "1.name.new")
    record = await stage.read(write)
    assert (record.status, record.hold, record.seal) == (Status.INFLIGHT, None, "1.name.new")
    assert (record.position, record.attempts, record.intent) == (before.position, before.attempts, before.intent)
    assert (await stage.ledger.renew([fence], 600_000))[0].asks > asks
    assert [r.id for r in await stage.ledger.unfinished(fence)] == [write.id]


@promise
async def only_what_is_held_for_its_seal_is_resealed(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    held = await stage.read(write)
    assert not await stage.ledger.reseal(held, "1.name.new")
    [other] = await stage.inflight(fence)
    assert not await stage.ledger.reseal(await stage.read(other), "1.name.new")
    assert await stage.read(write) == held
    assert (await stage.read(other)).seal == ""


@promise
async def reseal_of_another_life_changes_nothing(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    record = await stage.read(Entry(bad.intent, bad.life, 0))
    assert not await stage.ledger.reseal(replace(record, life="another"), "1.name.new")
    assert await stage.read(Entry(bad.intent, bad.life, 0)) == record


@promise
async def resealed_intent_counts_as_queued(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    record = await stage.read(Entry(bad.intent, bad.life, 0))
    assert await stage.ledger.reseal(record, "1.name.new")
    [taken] = await stage.ledger.take(fence, 9)
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.depth, view.unfinished, view.last_id) == (1, 0, taken.position)


@promise
async def cancel_of_what_was_resealed_and_signed_asks_its_owner(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    entry = Entry(bad.intent, bad.life, 0)
    assert await stage.ledger.reseal(await stage.read(entry), "1.name.new")
    [taken] = await stage.ledger.take(fence, 9)
    await stage.ledger.record_attempts(fence, BASE, [stage.write(entry, BASE, position=taken.position)])
    assert await stage.ledger.hold(fence, entry.intent.id, entry.life, "no_proof", {})
    record = await stage.ledger.cancel(entry.intent.id)
    assert (record.status, record.cancel_requested) == (Status.HELD, True)
