"""What wake-ups may carry. A ledger may leave it out; what it carries must be what reading would have told."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from txmanager.core.errors import Fenced, Refused
from txmanager.core.ledger import Entry, Settlement, Taken, WriteAhead
from txmanager.core.models import Fence, Outcome, Record, failure
from txmanager.core.states import LaneState, Status
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import BASE, Stage


async def brought(stage: Stage, lane: str, count: int = 1) -> Taken | None:
    """Queue some, and what the wake-up of it brings."""
    while await stage.ledger.wait_wake([lane], 0.1):
        stage.ledger.heard(lane)
    await stage.queued(lane, count)
    assert await stage.ledger.wait_wake([lane], 30) == {lane}
    return stage.ledger.heard(lane)


async def told(stage: Stage, lane: str, ended: Settlement, fence: Fence) -> Record | None:
    """What a caller hears that waits for this end."""
    await stage.ledger.wait_final(lane, ended.id, 0.05)  # the first one may only subscribe
    caller = asyncio.create_task(stage.ledger.wait_final(lane, ended.id, 30))
    await asyncio.sleep(0.01)
    await stage.settle_one(fence, ended)
    return await asyncio.wait_for(caller, 20)


def ahead(stage: Stage, entry: Taken, nonce: int = BASE, digest: str | None = None) -> WriteAhead:
    write = stage.write(Entry(entry.intent, entry.life, 0), nonce, position=entry.position)
    return replace(write, digest=entry.digest if digest is None else digest)


@promise
async def wake_up_brings_what_a_take_answers(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    if (entry := await brought(stage, lane)) is None:
        return
    assert stage.ledger.heard(lane) is None
    assert entry.digest
    assert await stage.ledger.take(fence, 9) == [replace(entry, digest="")]
    assert await stage.ledger.record_attempts(fence, BASE, [ahead(stage, entry)]) == BASE + 1


@promise
async def entry_that_a_wake_up_brought_is_signed_without_a_take(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    if (entry := await brought(stage, lane)) is None:
        return
    write = ahead(stage, entry)
    assert await stage.ledger.record_attempts(fence, BASE, [write]) == BASE + 1
    assert await stage.ledger.record_attempts(fence, BASE, [write]) == BASE + 1  # a replay
    assert await stage.ledger.take(fence, 9) == []
    [after] = await stage.queued(lane)
    assert [t.intent for t in await stage.ledger.take(fence, 9)] == [after.intent]
    assert (await stage.settle_one(fence, stage.done(write))).word == "settled"
    assert [t.intent for t in await stage.ledger.take(fence, 9)] == [after.intent]


@promise
async def entry_that_a_wake_up_changed_is_not_written_ahead(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    if (entry := await brought(stage, lane)) is None:
        return
    for _ in range(2):  # whether or not somebody took it meanwhile
        with pytest.raises(Refused, match="wake-up"):
            await stage.ledger.record_attempts(fence, BASE, [ahead(stage, entry, digest="0" * 40)])
        await stage.ledger.take(fence, 9)
    assert (await stage.read(Entry(entry.intent, entry.life, 0))).status is Status.QUEUED
    assert await stage.cursor(lane) == BASE


@promise
async def entry_that_a_wake_up_brought_late_is_not_written_ahead(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    if (entry := await brought(stage, lane)) is None:
        return
    await stage.ledger.record_attempts(fence, BASE, [ahead(stage, entry)])
    for nonce in (BASE, BASE + 1):
        with pytest.raises(Refused):
            await stage.ledger.record_attempts(fence, nonce, [signed_anew(stage, entry, nonce)])
    await stage.ledger.set_lane(lane, LaneState.PAUSED)
    other = await stage.take_over(lane, fence)
    with pytest.raises(Fenced):
        await stage.ledger.record_attempts(fence, BASE + 1, [signed_anew(stage, entry, BASE + 1)])
    with pytest.raises(Refused):
        await stage.ledger.record_attempts(other, BASE + 1, [signed_anew(stage, entry, BASE + 1)])


def signed_anew(stage: Stage, entry: Taken, nonce: int) -> WriteAhead:
    write = ahead(stage, entry, nonce)
    return replace(write, attempt=replace(write.attempt, hash=f"other{nonce}"))


@promise
async def wake_up_brings_no_entry_with_another_unsigned_before_it(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    assert await brought(stage, lane, 2) is None
    assert await brought(stage, lane) is None
    taken = await stage.ledger.take(fence, 9)
    writes = [stage.write(Entry(t.intent, t.life, 0), BASE + n, position=t.position) for n, t in enumerate(taken)]
    await stage.ledger.record_attempts(fence, BASE, writes)
    if (entry := await brought(stage, lane)) is not None:
        await stage.ledger.record_attempts(fence, BASE + 3, [ahead(stage, entry, BASE + 3)])


@promise
async def two_wake_ups_before_anybody_asks_bring_no_entry(stage: Stage) -> None:
    lane = await stage.lane()
    while await stage.ledger.wait_wake([lane], 0.1):
        stage.ledger.heard(lane)
    await stage.queued(lane)
    await stage.queued(lane)
    assert await stage.ledger.wait_wake([lane], 30) == {lane}
    while stage.ledger.heard(lane) is not None:  # the second may come later
        assert await stage.ledger.wait_wake([lane], 30) == {lane}


@promise
async def end_that_a_wake_up_tells_is_what_reading_answers(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.inflight(fence)
    done = stage.done(write)
    record = await told(stage, lane, Settlement.of(await stage.read(write), done.outcome, {}), fence)
    assert record in (None, await stage.read(write))


@promise
async def end_that_no_chain_shows_is_read_and_never_told(stage: Stage) -> None:
    """In a failover it may be taken back: who is told of it must have read it where it is durable."""
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.inflight(fence)
    failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
    ended = Settlement.of(await stage.read(write), failed, {write.attempt.name: {"cause": "expired"}})
    assert await told(stage, lane, ended, fence) is None
    assert (await stage.read(write)).status is Status.FAILED
