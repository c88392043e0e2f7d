"""`accept`: a new key claimed and appended in one step, where one store holds homes and lanes."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps

import pytest

from txmanager.core.errors import NotAllowed
from txmanager.core.ledger import APPEND_WITHIN_MS, Appended, Entry
from txmanager.core.models import Intent
from txmanager.core.quotas import Share
from txmanager.core.states import LaneState, Status
from txmanager.testing.ledger.registry import Promise, promise
from txmanager.testing.ledger.stage import LONG_MS, Stage

SOON = -1000


def one_step(check: Promise) -> Promise:
    """A ledger whose homes and lanes are apart offers no `accept`, says so, and is held to the two steps alone."""

    @wraps(check)
    async def either(stage: Stage) -> None:
        await stage.ledger.now_ms()
        if stage.ledger.born_now() is not None:
            await check(stage)
            return
        lane = await stage.lane()
        entry = Entry(stage.intent(), "life", await stage.ledger.now_ms())
        with pytest.raises(NotAllowed):
            await stage.ledger.accept(lane, [entry])
        assert await stage.ledger.read(entry.intent.id) is None

    return promise(either)


async def new(stage: Stage, intent: Intent | None = None, life: str = "") -> Entry:
    return Entry(intent or stage.intent(), life or f"life{next(stage.names)}", await stage.ledger.now_ms())


async def accept(stage: Stage, lane: str, *entries: Entry) -> list[str]:
    return [answer.word for answer in await stage.ledger.accept(lane, entries)]


async def nothing_was_claimed(stage: Stage, entry: Entry) -> None:
    assert await stage.ledger.read(entry.intent.id) is None
    assert (await stage.claim(entry.intent, "near:net:other:9", "first")).word == "claimed"


async def depth(stage: Stage, lane: str) -> int:
    view = await stage.ledger.lane(lane)
    assert view is not None
    return view.depth


@one_step
async def accept_claims_a_new_key_and_appends_its_intent(stage: Stage) -> None:
    lane = await stage.lane()
    entries = [await new(stage) for _ in range(3)]
    answers = await stage.ledger.accept(lane, entries)
    assert [(a.word, a.status, a.depth) for a in answers] == [("appended", "queued", n) for n in (1, 2, 3)]
    for entry, answer in zip(entries, answers, strict=True):
        record = await stage.read(entry)
        assert (record.status, record.lane, record.life) == (Status.QUEUED, lane, entry.life)
        assert (record.position, record.created_at) == (answer.position, answer.at)
    claimed = await stage.claim(entries[0].intent, "near:net:b:2")
    assert (claimed.word, claimed.lane, claimed.life) == ("renewed", lane, entries[0].life)
    taken = await stage.ledger.take(await stage.own(lane), 9)
    assert [(t.intent, t.life, t.position) for t in taken] == [
        (e.intent, e.life, a.position) for e, a in zip(entries, answers, strict=True)
    ]
    assert await stage.statuses(lane) == [(e.intent.id.key, "queued") for e in entries]


@one_step
async def accept_wakes_whoever_waits_for_the_lane(stage: Stage) -> None:
    lane = await stage.lane()
    while await stage.ledger.wait_wake([lane], 0.1):
        pass
    await accept(stage, lane, await new(stage))
    assert await stage.ledger.wait_wake([lane], 5) == {lane}


@one_step
async def accept_again_is_known_and_changes_nothing(stage: Stage) -> None:
    lane, entry = await stage.lane(), await new(stage)
    assert await accept(stage, lane, entry, entry) == ["appended", "known"]
    before = await stage.read(entry)
    assert await accept(stage, lane, entry) == ["known"]
    assert await accept(stage, lane, await new(stage, entry.intent, "another-life")) == ["known"]
    assert await stage.read(entry) == before
    assert await depth(stage, lane) == 1
    assert [a.word for a in await stage.ledger.append(lane, [entry])] == ["exists"]


@one_step
async def accept_leaves_every_key_alone_that_has_a_home(stage: Stage) -> None:
    lane = await stage.lane()
    claimed, own, target = stage.intent(), stage.intent(), stage.intent()
    first = await stage.claim(claimed, "near:net:b:2", "old")
    await stage.ledger.alias(own.id, own.fingerprint, target.id)
    [done] = await stage.settled(await stage.own(lane))
    await stage.ledger.retire(await stage.ledger.unretired(lane, 9))
    ended = stage.intent(done.id.key)
    other = stage.intent(claimed.id.key, amount="9")
    entries = [await new(stage, intent) for intent in (claimed, own, ended, other)]
    assert await accept(stage, lane, *entries) == ["known"] * 4
    assert await depth(stage, lane) == 0
    again = await stage.claim(claimed, lane)
    assert (again.word, again.lane, again.life) == ("renewed", first.lane, first.life)
    assert (await stage.claim(own, lane)).word == "alias"
    assert (await stage.claim(ended, lane)).word == "final"


@one_step
async def late_accept_is_stale_and_one_from_the_future_ahead(stage: Stage) -> None:
    """Else it would begin another life of a key that was used, answered and forgotten while it was on its way."""
    lane, entry = await stage.lane(), await new(stage)
    old = replace(entry, born=entry.born - APPEND_WITHIN_MS - 1000)
    future = replace(entry, born=entry.born + APPEND_WITHIN_MS + 10_000)
    assert await accept(stage, lane, old, future) == ["stale", "ahead"]
    assert await depth(stage, lane) == 0
    await nothing_was_claimed(stage, entry)


@one_step
async def accept_that_the_lane_refuses_leaves_no_claim(stage: Stage) -> None:
    lane = await stage.lane(queue_limit=2)
    charged = replace(await new(stage), share=Share("bob", 10, most=1))
    second = replace(await new(stage), share=Share("bob", 10, most=1))
    third, fourth = await new(stage), await new(stage)
    assert await accept(stage, lane, charged, second, third) == ["appended", "no_room", "appended"]
    assert await accept(stage, lane, fourth) == ["full"]
    keyless = await new(stage)
    await stage.lane("evm:1:0xaa", keyless=True)
    assert await accept(stage, "evm:1:0xaa", keyless) == ["unreserved"]
    unknown = await new(stage)
    assert await accept(stage, "near:net:never:1", unknown) == ["closed"]
    closed = await stage.lane("near:net:closed:1")
    for state in (LaneState.DRAINING, LaneState.CLOSED):
        await stage.ledger.set_lane(closed, state)
    late = await new(stage)
    assert await accept(stage, closed, late) == ["closed"]
    for entry in (second, fourth, keyless, unknown, late):
        await nothing_was_claimed(stage, entry)


@one_step
async def record_of_another_life_is_told_apart_from_a_new_key(stage: Stage) -> None:
    """Its home is gone while the record lives: nobody may start it again."""
    lane, entry = await stage.lane(), await new(stage)
    await accept(stage, lane, entry)
    await stage.expire("home", entry.intent.id)
    again = await new(stage, entry.intent)
    assert await accept(stage, lane, again) == ["other_life"]
    assert await depth(stage, lane) == 1
    assert (await stage.claim(entry.intent, lane, "first")).word == "claimed"


@one_step
async def key_accepted_again_after_its_retention_has_another_life(stage: Stage) -> None:
    lane = await stage.lane()
    [done] = await stage.settled(await stage.own(lane))
    await stage.ledger.retire(await stage.ledger.unretired(lane, 9))
    await stage.expire("home", done.id)
    again = await new(stage, stage.intent(done.id.key), "second-life")
    assert await accept(stage, lane, again) == ["appended"]
    assert (await stage.read(again)).life == "second-life"


@one_step
async def what_was_accepted_at_once_and_never_retired_is_found_in_its_lane(stage: Stage) -> None:
    """It never was without a record, so it may be missing among the open claims of its home."""
    lane, entry = await stage.lane(), await new(stage)
    await accept(stage, lane, entry)
    await stage.ledger.cancel(entry.intent.id)
    await stage.ledger.retire(await stage.ledger.unretired(lane, 9))
    assert (await stage.claim(entry.intent, lane)).word == "final"
    assert await stage.ledger.sweep(entry.intent.id.home, SOON) == 0


@one_step
async def two_producers_that_accept_one_key_at_once_begin_one_life(stage: Stage) -> None:
    lane, other = await stage.lane(), await stage.lane("near:net:b:2")
    intent = stage.intent()
    one, two = await new(stage, intent, "one"), await new(stage, intent, "two")
    first: list[Appended] = await stage.again().accept(lane, [one])
    second = await stage.ledger.accept(other, [two])
    assert [a.word for a in (*first, *second)] == ["appended", "known"]
    assert (await stage.read(one)).life == "one"
    assert await depth(stage, other) == 0
    fence = await stage.own(lane, lease_ms=LONG_MS)
    assert [t.life for t in await stage.ledger.take(fence, 9)] == ["one"]
