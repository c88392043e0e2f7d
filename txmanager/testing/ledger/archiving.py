"""Where an archive is waited for, what ended stays until the archive has it; and when it cannot stay, it is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from txmanager.core.errors import Fenced, NotAllowed, NotFound
from txmanager.core.gaps import fill_record
from txmanager.core.ledger import Entry, Settlement, WriteAhead
from txmanager.core.listing import mark_of
from txmanager.core.models import Attempt, IntentId, Outcome, Purpose, Record
from txmanager.core.reservations import Use
from txmanager.core.states import LaneState, Status
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import BASE, POOL, Stage


async def archived(stage: Stage, max_lag: int = 100) -> str:
    lane = await stage.lane()
    await stage.ledger.archive(lane, max_lag)
    return lane


def named(entry: Entry | WriteAhead) -> tuple[IntentId, str]:
    return (entry.intent.id if isinstance(entry, Entry) else entry.id), entry.life


async def waiting(stage: Stage, lane: str) -> set[IntentId]:
    return {r.id for r in await stage.ledger.unarchived(lane, 99)}


@promise
async def final_record_waits_for_the_archive_with_its_payload(stage: Stage) -> None:
    fence = await stage.own(await archived(stage))
    [write] = await stage.settled(fence)
    [record] = await stage.ledger.unarchived(fence.lane, 9)
    assert (record.id, record.life, record.status) == (write.id, write.life, Status.DONE)
    assert record.intent.payload == {"to": "bob"}
    assert (record.outcome, record.attempts[0].hash) == (stage.done(write).outcome, write.attempt.hash)
    assert (await stage.read(write)).intent.payload == {}, "a retry is answered the same, archive or not"
    [listed] = (await stage.ledger.browse(fence.lane, None, 9)).records
    assert listed.intent.payload == {"to": "bob"}
    assert await stage.ledger.unretired(fence.lane, 9) == []
    assert await stage.ledger.retire([record]) == 0
    assert await stage.ledger.unarchived(fence.lane, 9) == [record]
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.unretired, view.archive) == (1, 100)


@promise
async def cancelled_record_waits_with_its_payload_wherever_it_stood(stage: Stage) -> None:
    fence = await stage.own(await archived(stage))
    [aside] = await stage.queued(fence.lane)
    [taken] = await stage.ledger.take(fence, 1)
    assert await stage.ledger.set_aside(fence, taken, "bad_seal", {})
    [queued] = await stage.queued(fence.lane)
    for entry in (aside, queued):
        assert (await stage.ledger.cancel(entry.intent.id)).intent.payload == {}
    found = await stage.ledger.unarchived(fence.lane, 9)
    assert {r.id for r in found} == {aside.intent.id, queued.intent.id}
    assert all(r.intent.payload == {"to": "bob"} and r.status is Status.CANCELLED for r in found)


@promise
async def acknowledged_record_is_retired_and_asked_about_no_more(stage: Stage) -> None:
    fence = await stage.own(await archived(stage))
    one, two = await stage.settled(fence, 2)
    assert await stage.ledger.acknowledge(fence.lane, [named(one)]) == 1
    assert await stage.ledger.acknowledge(fence.lane, [named(one)]) == 0
    assert await waiting(stage, fence.lane) == {two.id}
    [ready] = await stage.ledger.unretired(fence.lane, 9)
    assert (ready.id, ready.intent.payload) == (one.id, {})
    assert await stage.ledger.retire([ready]) == 1
    assert await stage.ledger.retire([await stage.read(two)]) == 0
    assert (await stage.read(one)).outcome == stage.done(one).outcome
    assert (await stage.ledger.backlog(fence.lane, 9)).gone == ()
    assert await stage.ledger.acknowledge(fence.lane, []) == 0


@promise
async def acknowledged_record_keeps_no_payload(stage: Stage) -> None:
    fence = await stage.own(await archived(stage))
    [write] = await stage.settled(fence)
    await stage.ledger.acknowledge(fence.lane, [named(write)])
    [listed] = (await stage.ledger.browse(fence.lane, None, 9)).records
    assert listed.intent.payload == {}


@promise
async def acknowledgement_of_a_live_record_or_another_life_counts_nothing(stage: Stage) -> None:
    fence = await stage.own(await archived(stage))
    [write] = await stage.inflight(fence)
    assert await stage.ledger.acknowledge(fence.lane, [named(write)]) == 0
    await stage.ledger.settle(fence, [stage.done(write)])
    assert await stage.ledger.acknowledge(fence.lane, [(write.id, "another-life")]) == 0
    assert await waiting(stage, fence.lane) == {write.id}
    assert await stage.ledger.acknowledge("near:net:never:1", [named(write)]) == 0


@promise
async def archive_that_lags_too_far_behind_stops_nothing_and_what_went_is_named(stage: Stage) -> None:
    fence = await stage.own(await archived(stage, max_lag=2))
    batch = await stage.settled(fence, 5)
    ready = await stage.ledger.unretired(fence.lane, 99)
    assert {r.id for r in ready} == {w.id for w in batch}
    assert await stage.ledger.retire(ready) == 3
    left = await waiting(stage, fence.lane)
    assert len(left) == 2
    assert await stage.ledger.unretired(fence.lane, 99) == []
    backlog = await stage.ledger.backlog(fence.lane, 99)
    assert ({one.id for one in backlog.gone} | left, backlog.lost) == ({w.id for w in batch}, 0)
    assert {(one.id, one.life) for one in backlog.gone} <= {named(w) for w in batch}
    now = await stage.ledger.now_ms()
    assert all(now - 60_000 < one.at <= now for one in backlog.gone)
    assert len((await stage.ledger.backlog(fence.lane, 2)).gone) == 2
    for one in backlog.gone:  # their homes have the outcome
        record = await stage.ledger.read(one.id)
        assert record is not None
        assert (record.life, record.status) == (one.life, Status.DONE)
    assert await stage.ledger.acknowledge(fence.lane, [(one.id, one.life) for one in backlog.gone]) == 3
    assert await stage.ledger.acknowledge(fence.lane, [(one.id, one.life) for one in backlog.gone]) == 0
    assert (await stage.ledger.backlog(fence.lane, 99)).gone == ()


@promise
async def acknowledged_records_do_not_count_as_late(stage: Stage) -> None:
    """What the archive has does not wait for it, whichever goes first: the others are within the limit, and stay."""
    fence = await stage.own(await archived(stage, max_lag=2))
    one, two, three = await stage.settled(fence, 3)
    await stage.ledger.acknowledge(fence.lane, [named(one)])
    assert [r.id for r in await stage.ledger.unretired(fence.lane, 9)] == [one.id]
    assert [await stage.ledger.retire([await stage.read(write)]) for write in (two, one, three)] == [0, 1, 0]
    assert await waiting(stage, fence.lane) == {two.id, three.id}
    assert (await stage.ledger.backlog(fence.lane, 9)).gone == ()
    [four] = await stage.settled(fence)  # one too many wait now, and one goes
    assert await stage.ledger.retire([await stage.read(w) for w in (two, three, four)]) == 1
    assert [gone.id for gone in (await stage.ledger.backlog(fence.lane, 9)).gone] == [two.id]


@promise
async def backlog_that_no_home_remembers_is_counted_as_lost(stage: Stage) -> None:
    fence = await stage.own(await archived(stage, max_lag=0))
    await stage.settled(fence)
    assert await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9)) == 1
    await stage.expire("backlog", lane=fence.lane)
    [second] = await stage.settled(fence)
    assert await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9)) == 1
    backlog = await stage.ledger.backlog(fence.lane, 9)
    assert backlog.lost == 1
    assert [one.id for one in backlog.gone] == [second.id]


@promise
async def records_that_ended_before_the_archive_began_are_archived_without_payload(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    assert {r.id for r in await stage.ledger.unretired(fence.lane, 9)} == {write.id}
    await stage.ledger.archive(fence.lane, 9)
    assert await stage.ledger.unretired(fence.lane, 9) == []
    [record] = await stage.ledger.unarchived(fence.lane, 9)
    assert (record.id, record.intent.payload) == (write.id, {})


@promise
async def archive_that_is_taken_away_lets_everything_go(stage: Stage) -> None:
    fence = await stage.own(await archived(stage, max_lag=0))
    await stage.settled(fence)
    await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9))
    await stage.ledger.archive(fence.lane, 9)
    [write] = await stage.settled(fence)
    await stage.ledger.archive(fence.lane, None)
    assert {r.id for r in await stage.ledger.unretired(fence.lane, 9)} == {write.id}
    assert await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9)) == 1
    assert (await stage.ledger.backlog(fence.lane, 9)).gone == ()
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.archive, view.unretired) == (None, 0)


@promise
async def failure_before_signing_keeps_its_payload_for_the_archive(stage: Stage) -> None:
    fence = await stage.own(await archived(stage))
    [entry] = await stage.queued(fence.lane)
    [taken] = await stage.ledger.take(fence, 1)
    failed = Outcome(Status.FAILED, error={"code": "too_old"})
    settled = await stage.settle_one(fence, Settlement(entry.intent.id, entry.life, taken.position, failed))
    assert settled.word == "settled"
    [record] = await stage.ledger.unarchived(fence.lane, 9)
    assert (record.status, record.intent.payload) == (Status.FAILED, {"to": "bob"})


def filled(lane: str, nonce: int) -> tuple[Attempt, Record]:
    attempt = Attempt(nonce, f"0xnoop{nonce}", b"\x00\xffraw", Purpose.NOOP, 1_700_000_000_000)
    outcome = Outcome(Status.DONE, attempt.hash, nonce, {"gas_used": "21000"}, cost=21_000 * 10**18)
    return attempt, fill_record(POOL, lane, attempt, outcome)


@promise
async def no_op_of_no_intent_that_landed_waits_for_the_archive_once(stage: Stage) -> None:
    """What it took left the lane's balance like everything else."""
    fence = await stage.own(await archived(stage))
    one, ended = filled(fence.lane, BASE - 1)
    two, other = filled(fence.lane, BASE - 2)
    await stage.ledger.fill(fence, [one, two])
    assert await stage.ledger.fill(fence, (), [one.name], [ended]) == [two]
    assert await stage.ledger.fill(fence, (), [one.name], [ended]) == [two], "a lost reply"
    [record] = await stage.ledger.unarchived(fence.lane, 9)
    now = await stage.ledger.now_ms()
    assert (record.id, record.life, record.status, record.outcome) == (ended.id, ended.life, Status.DONE, ended.outcome)
    assert (record.intent, record.attempts) == (ended.intent, (one,))
    assert now - 60_000 < record.created_at == record.updated_at <= now
    assert mark_of(record)[0] == record.created_at
    [listed] = (await stage.ledger.browse(fence.lane, None, 9)).records
    assert listed.id == ended.id
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.unretired, view.depth, view.unfinished, view.cursor) == (1, 0, 0, BASE)
    await stage.ledger.acknowledge(fence.lane, [(ended.id, ended.life)])
    assert await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9)) == 1
    assert await stage.ledger.fill(fence, (), [one.name], [ended]) == [two], "a reply that was lost for long"
    assert await stage.ledger.unarchived(fence.lane, 9) == []
    home = await stage.ledger.read(ended.id)
    assert home is not None
    assert home.outcome == ended.outcome
    with pytest.raises(Fenced):
        await stage.ledger.fill(replace(fence, token="another"), (), [two.name], [other])
    assert await stage.ledger.unarchived(fence.lane, 9) == []


@promise
async def no_op_of_no_intent_is_forgotten_where_no_archive_is_waited_for(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    one, ended = filled(fence.lane, BASE - 1)
    await stage.ledger.fill(fence, [one])
    assert await stage.ledger.fill(fence, (), [one.name], [ended]) == []
    assert (await stage.ledger.browse(fence.lane, None, 9)).records == ()
    assert await stage.ledger.read(ended.id) is None


@promise
async def no_payload_stays_where_no_archive_is_waited_for(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [aside] = await stage.queued(fence.lane)
    [taken] = await stage.ledger.take(fence, 1)
    assert await stage.ledger.set_aside(fence, taken, "bad_seal", {})
    failed = Outcome(Status.FAILED, error={"code": "not_sealed"})
    settlement = Settlement(aside.intent.id, aside.life, taken.position, failed)
    assert (await stage.settle_one(fence, settlement)).word == "settled"
    [cancelled] = await stage.queued(fence.lane)
    [taken] = await stage.ledger.take(fence, 1)
    assert await stage.ledger.set_aside(fence, taken, "bad_seal", {})
    await stage.ledger.cancel(cancelled.intent.id)
    found = (await stage.ledger.browse(fence.lane, None, 9)).records
    assert [r.intent.payload for r in found] == [{}, {}]


@promise
async def lane_with_records_that_wait_for_the_archive_is_not_closed(stage: Stage) -> None:
    fence = await stage.own(await archived(stage))
    [write] = await stage.settled(fence)
    await stage.ledger.retire([await stage.read(write)])
    await stage.ledger.set_lane(fence.lane, LaneState.DRAINING)
    with pytest.raises(NotAllowed, match="still holds 1 records"):
        await stage.ledger.set_lane(fence.lane, LaneState.CLOSED)


@promise
async def keyless_lane_with_a_backlog_is_not_deleted(stage: Stage) -> None:
    lane = await stage.lane("evm:1:0xaa", keyless=True)
    await stage.ledger.archive(lane, 0)
    with pytest.raises(NotFound):
        await stage.ledger.archive("evm:1:0xbb", 0)
    entry = await stage.entry(lane)
    token = f"token{next(stage.names)}"
    reserved = await stage.ledger.reserve(lane, token, 60_000, chain_nonce=7, seed=7)
    assert reserved.nonce is not None
    used = Entry(entry.intent, entry.life, entry.born, Use(token, reserved.nonce, "0xhash"))
    assert [a.word for a in await stage.ledger.append(lane, [used])] == ["appended"]
    await stage.ledger.cancel(entry.intent.id)
    assert await stage.ledger.retire(await stage.ledger.unretired(lane, 9)) == 1
    fence = await stage.own(lane)
    await stage.ledger.settle(fence, [], landed=reserved.nonce)
    with pytest.raises(NotAllowed, match="record"):
        await stage.ledger.forget_lane(lane)
    await stage.ledger.acknowledge(lane, [named(entry)])
    await stage.ledger.forget_lane(lane)
    assert (await stage.ledger.backlog(lane, 9)).gone == ()
    assert await stage.ledger.unarchived(lane, 9) == []
