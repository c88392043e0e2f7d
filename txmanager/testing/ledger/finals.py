"""Retire and sweep: the stored answer outlives the record, and nothing comes back from the dead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from txmanager.core.errors import NotAllowed
from txmanager.core.ledger import Claim, Entry
from txmanager.core.models import IntentId, Outcome
from txmanager.core.states import LaneState, Status
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import POOL, Stage

SOON = -60_000
"""An age limit in the future: every claim is old enough."""


async def retired(stage: Stage, lane: str) -> int:
    return await stage.ledger.retire(await stage.ledger.unretired(lane, 99))


@promise
async def retired_record_is_answered_from_its_home(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    await stage.ledger.cancel(write.id)
    await stage.settle_one(fence, stage.done(write))
    before = await stage.read(write)
    assert await retired(stage, fence.lane) == 1
    after = await stage.read(write)
    assert [a.raw for a in after.attempts] == [b""]
    assert after.attempts[0].hash == write.attempt.hash
    assert (after.outcome, after.status, after.life, after.lane) == (
        before.outcome,
        Status.DONE,
        write.life,
        fence.lane,
    )
    assert (after.hold, after.cancel_requested) == (before.hold, True)
    assert (after.created_at, after.updated_at, after.position) == (
        before.created_at,
        before.updated_at,
        before.position,
    )
    claimed = await stage.claim(stage.intent(write.id.key), "near:net:b:2")
    assert (claimed.word, claimed.record, claimed.life) == ("final", after, write.life)
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert view.unretired == 0


@promise
async def retire_again_changes_nothing(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    records = await stage.ledger.unretired(fence.lane, 9)
    assert await stage.ledger.retire(records) == 1
    before = await stage.read(write)
    assert await stage.ledger.retire(records) == 0
    assert await stage.read(write) == before
    assert await stage.ledger.retire([]) == 0


@promise
async def live_record_is_never_retired(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    with pytest.raises(NotAllowed, match="only a final record"):
        await stage.ledger.retire([await stage.read(write)])
    assert await stage.ledger.unretired(fence.lane, 9) == []
    assert (await stage.read(write)).status is Status.INFLIGHT


@promise
async def append_after_retirement_meets_a_tombstone(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [entry] = await stage.queued(fence.lane)
    await stage.ledger.cancel(entry.intent.id)
    await retired(stage, fence.lane)
    assert [a.word for a in await stage.ledger.append(fence.lane, [entry])] == ["retired"]
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert view.depth == 0


@promise
async def home_retired_and_key_retried_answers_the_stored_result(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    await retired(stage, fence.lane)
    first = await stage.claim(stage.intent(write.id.key), fence.lane)
    again = await stage.claim(stage.intent(write.id.key), "near:net:b:2")
    assert first.record == again.record == await stage.read(write)
    assert (await stage.claim(stage.intent(write.id.key, amount="1"), fence.lane)).word == "conflict"


@promise
async def key_used_again_after_its_retention_has_another_life(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [entry] = await stage.queued(lane)
    await stage.ledger.cancel(entry.intent.id)
    await retired(stage, lane)
    await stage.expire("home", entry.intent.id)
    assert await stage.ledger.read(entry.intent.id) is None
    reborn = await stage.entry(lane, entry.intent)
    assert reborn.life != entry.life
    assert [a.word for a in await stage.ledger.append(lane, [entry])] == ["retired"]
    assert [a.word for a in await stage.ledger.append(lane, [reborn])] == ["appended"]
    assert (await stage.read(reborn)).life == reborn.life
    # the tombstone of the first life must not take its expiry into the second
    assert [a.word for a in await stage.ledger.append(lane, [reborn])] == ["exists"]
    assert [t.life for t in await stage.ledger.take(fence, 9)] == [reborn.life]


@promise
async def past_of_a_reused_key_never_overwrites_its_new_life(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.settled(fence)
    past = await stage.ledger.unretired(lane, 9)
    # the home forgot the key while the record was still there, and somebody claimed it anew
    await stage.expire("home", write.id)
    reborn = await stage.claim(stage.intent(write.id.key), "near:net:b:2", "second-life")
    assert reborn.word == "claimed"
    await stage.ledger.retire(past)
    still = await stage.claim(stage.intent(write.id.key), lane)
    assert (still.word, still.life, still.lane) == ("renewed", "second-life", "near:net:b:2")


@promise
async def record_of_another_life_in_the_lane_is_told_apart(stage: Stage) -> None:
    lane = await stage.lane()
    [entry] = await stage.queued(lane)
    await stage.expire("home", entry.intent.id)
    reborn = await stage.entry(lane, entry.intent)
    assert [a.word for a in await stage.ledger.append(lane, [reborn])] == ["other_life"]
    assert await stage.ledger.read(entry.intent.id) is None
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert view.depth == 1


@promise
async def bury_compares_life_and_final_state(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [entry] = await stage.queued(lane)
    await stage.ledger.cancel(entry.intent.id)
    [old] = await stage.ledger.unretired(lane, 9)
    await stage.ledger.retire([old])
    for what in ("home", "tombstone"):
        await stage.expire(what, entry.intent.id, lane)
    reborn = await stage.entry(lane, entry.intent)
    await stage.ledger.append(lane, [reborn])
    await stage.ledger.cancel(entry.intent.id)
    # the retirement of the first life, delayed until the second one has ended the same way
    assert await stage.ledger.retire([old]) == 0
    assert [r.life for r in await stage.ledger.unretired(lane, 9)] == [reborn.life]
    assert await stage.ledger.release(fence)


@promise
async def retire_of_a_record_that_ended_otherwise_changes_nothing(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    [record] = await stage.ledger.unretired(fence.lane, 9)
    wrong = replace(record, status=Status.CANCELLED, outcome=Outcome(Status.CANCELLED))
    assert await stage.ledger.retire([wrong]) == 0
    assert len(await stage.ledger.unretired(fence.lane, 9)) == 1
    # the same again once the home keeps the true end
    await stage.expire("home", write.id)
    assert await stage.ledger.retire([record]) == 1
    assert await stage.ledger.retire([wrong]) == 0
    assert (await stage.read(write)).status is Status.DONE


@promise
async def unretired_hands_out_no_more_than_asked(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    batch = await stage.settled(fence, 5)
    assert len(await stage.ledger.unretired(fence.lane, 3)) == 3
    assert {r.id for r in await stage.ledger.unretired(fence.lane, 99)} == {w.id for w in batch}
    assert await stage.ledger.unretired("near:net:never:1", 9) == []


# -- sweep


@promise
async def sweep_deletes_claims_that_never_got_a_record(stage: Stage) -> None:
    lane = await stage.lane()
    lost = await stage.entry(lane)
    assert await stage.ledger.sweep(lost.intent.id.home) == 0
    assert (await stage.claim(lost.intent, "near:net:b:2")).word == "renewed"
    assert await stage.ledger.sweep(lost.intent.id.home, SOON) == 1
    assert await stage.ledger.sweep(lost.intent.id.home, SOON) == 0
    assert (await stage.claim(lost.intent, "near:net:b:2", "new")).word == "claimed"


@promise
async def sweep_keeps_claims_whose_record_lives_and_retires_what_was_left(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [entry] = await stage.queued(lane)
    assert await stage.ledger.sweep(entry.intent.id.home, SOON) == 0
    assert (await stage.read(entry)).status is Status.QUEUED
    await stage.ledger.cancel(entry.intent.id)
    assert await stage.ledger.sweep(entry.intent.id.home, SOON) == 1
    assert (await stage.claim(entry.intent, lane)).word == "final"
    assert await stage.ledger.unretired(lane, 9) == []
    assert await stage.ledger.sweep(entry.intent.id.home, SOON) == 0
    assert await stage.ledger.release(fence)


@promise
async def sweep_of_a_home_leaves_other_homes_alone(stage: Stage) -> None:
    entry = await stage.entry("near:net:a:1")
    assert await stage.ledger.sweep((entry.intent.id.home + 1) % 1024, SOON) == 0
    assert (await stage.claim(entry.intent, "near:net:b:2")).word == "renewed"


@promise
async def claim_swept_while_its_producer_paused_starts_over_cleanly(stage: Stage) -> None:
    lane = await stage.lane()
    paused = await stage.entry(lane)
    await stage.ledger.sweep(paused.intent.id.home, SOON)
    # the producer goes on a day later: its claim is far too old to append
    late = Entry(paused.intent, paused.life, (await stage.ledger.now_ms()) - 24 * 3600 * 1000)
    assert [a.word for a in await stage.ledger.append(lane, [late])] == ["stale"]
    again = await stage.entry(lane, paused.intent)
    assert again.life != paused.life
    assert [a.word for a in await stage.ledger.append(lane, [again])] == ["appended"]
    assert (await stage.read(again)).life == again.life


@promise
async def alias_is_swept_only_after_its_target(stage: Stage) -> None:
    own, target = stage.intent("own"), stage.intent("delegate:1")
    await stage.ledger.alias(own.id, own.fingerprint, target.id)
    await stage.claim(target, "near:net:a:1")
    assert await stage.ledger.sweep(own.id.home, SOON) == 0
    assert (await stage.ledger.alias(own.id, own.fingerprint, target.id)).word == "alias"
    assert await stage.ledger.sweep(target.id.home, SOON) == 1
    assert await stage.ledger.sweep(own.id.home, SOON) == 1
    assert (await stage.claim(own, "near:net:a:1")).word == "claimed"


@promise
async def lane_with_unretired_finals_does_not_close(stage: Stage) -> None:
    lane = await stage.lane()
    [entry] = await stage.queued(lane)
    await stage.ledger.set_lane(lane, LaneState.DRAINING)
    with pytest.raises(NotAllowed, match="still holds 1 records"):
        await stage.ledger.set_lane(lane, LaneState.CLOSED)
    await stage.ledger.cancel(entry.intent.id)
    with pytest.raises(NotAllowed, match="still holds 1 records"):
        await stage.ledger.set_lane(lane, LaneState.CLOSED)
    await retired(stage, lane)
    assert (await stage.ledger.set_lane(lane, LaneState.CLOSED)).state is LaneState.CLOSED


@promise
async def many_claims_of_one_home_are_swept_in_one_go(stage: Stage) -> None:
    ids = [id for n in range(400) if (id := IntentId(POOL, f"bulk{n}")).home % 64 == 0]
    await stage.ledger.claim([Claim(id, "v1:x", "near:net:a:1", "life") for id in ids])
    assert len(ids) > 2
    assert sum([await stage.ledger.sweep(home, SOON) for home in {id.home for id in ids}]) == len(ids)
