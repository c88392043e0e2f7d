"""Claim, append, move, alias, cancel: what producers may rely on."""

from __future__ import annotations

import pytest

from txmanager.core.errors import NotAllowed, NotFound
from txmanager.core.ledger import APPEND_WITHIN_MS, Claim, Entry
from txmanager.core.models import IntentId, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import LONG_MS, POOL, Stage

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@promise
async def first_claim_wins_and_later_ones_learn_lane_and_life(stage: Stage) -> None:
    intent = stage.intent()
    first = await stage.claim(intent, "near:net:a:1", "life-1")
    later = await stage.claim(intent, "near:net:b:2", "life-2")
    assert (first.word, later.word) == ("claimed", "renewed")
    assert (later.lane, later.life) == (first.lane, first.life) == ("near:net:a:1", "life-1")
    assert later.born >= first.born > 0


@promise
async def claims_of_a_batch_are_answered_one_by_one_in_order(stage: Stage) -> None:
    known, fresh, other = stage.intent(), stage.intent(), stage.intent(n=1)
    await stage.claim(known, "near:net:a:1", "old")
    await stage.claim(new_intent(key=other.id.key, pool=POOL, kind="near.transfer", payload={}), "near:net:a:1")
    claims = [Claim(i.id, i.fingerprint, "near:net:b:2", "new") for i in (known, fresh, other, fresh)]
    answers = await stage.ledger.claim(claims)
    assert [a.word for a in answers] == ["renewed", "claimed", "conflict", "renewed"]
    assert [a.life for a in answers] == ["old", "new", "", "new"]


@promise
async def same_key_with_another_payload_is_a_conflict_that_changes_nothing(stage: Stage) -> None:
    lane = await stage.lane()
    [entry] = await stage.queued(lane)
    before = await stage.read(entry)
    other = stage.intent(entry.intent.id.key, amount="1")
    assert (await stage.claim(other, "near:net:b:2", "life-9")).word == "conflict"
    assert await stage.read(entry) == before
    again = await stage.claim(entry.intent, lane)
    assert (again.word, again.life) == ("renewed", entry.life)


@promise
async def one_key_means_other_intents_to_other_tenants_and_pools(stage: Stage) -> None:
    names = [IntentId(POOL, "k"), IntentId("other", "k"), IntentId(POOL, "k", "tenant")]
    answers = await stage.ledger.claim([Claim(id, "v1:x", "near:net:a:1", f"life-{n}") for n, id in enumerate(names)])
    assert [a.word for a in answers] == ["claimed"] * 3


@promise
async def append_stores_the_intent_exactly_as_accepted(stage: Stage) -> None:
    lane = await stage.lane()
    intent = new_intent(
        key="k:{}/\\%20'\"~",
        pool=POOL,
        kind="near.transfer",
        payload={"to": "bob", "amount": "183000000000123", "n": 1.5, "deep": {"a": [1, None, True, "ü\n\x00"]}},
        tenant="t-1",
        partition_key="alice.near",
        max_age_s=60,
        metadata={"order": 7},
        token="app",
        trace=TRACE,
    )
    entry = await stage.entry(lane, intent)
    [answer] = await stage.ledger.append(lane, [entry])
    assert (answer.word, answer.status, answer.depth) == ("appended", "queued", 1)
    fence = await stage.own(lane)
    [taken] = await stage.ledger.take(fence, 5)
    assert (taken.intent, taken.life, taken.position, taken.at) == (intent, entry.life, answer.position, answer.at)
    record = await stage.ledger.read(intent.id)
    assert record is not None
    assert (record.status, record.lane, record.life) == (Status.QUEUED, lane, entry.life)
    assert (record.position, record.created_at) == (answer.position, answer.at)
    assert record.intent.fingerprint == intent.fingerprint
    assert (record.intent.metadata, record.intent.token, record.intent.trace) == ({"order": 7}, "app", TRACE)


@promise
async def append_again_answers_the_same_entry(stage: Stage) -> None:
    lane = await stage.lane()
    entries = [await stage.entry(lane) for _ in range(3)]
    first = await stage.ledger.append(lane, entries)
    again = await stage.ledger.append(lane, entries)
    assert [a.word for a in again] == ["exists"] * 3
    assert [(a.position, a.status, a.at) for a in again] == [(a.position, a.status, a.at) for a in first]
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert view.depth == 3
    assert len(await stage.ledger.events(lane)) == 3


@promise
async def append_of_an_old_claim_is_stale_and_of_a_future_one_ahead(stage: Stage) -> None:
    lane = await stage.lane()
    entry = await stage.entry(lane)
    now = await stage.ledger.now_ms()
    old = Entry(entry.intent, entry.life, now - APPEND_WITHIN_MS - 1000)
    future = Entry(entry.intent, entry.life, now + APPEND_WITHIN_MS + 10_000)
    assert [a.word for a in await stage.ledger.append(lane, [old, future])] == ["stale", "ahead"]
    assert await stage.ledger.read(entry.intent.id) is None
    assert [a.word for a in await stage.ledger.append(lane, [entry])] == ["appended"]


@promise
async def replay_of_an_append_is_answered_however_old_its_claim_is(stage: Stage) -> None:
    lane = await stage.lane()
    [entry] = await stage.queued(lane)
    assert [a.word for a in await stage.ledger.append(lane, [Entry(entry.intent, entry.life, 1)])] == ["exists"]


@promise
async def full_queue_pushes_back_and_takes_again_after_room(stage: Stage) -> None:
    lane = await stage.lane(queue_limit=2)
    entries = [await stage.entry(lane) for _ in range(3)]
    answers = await stage.ledger.append(lane, entries)
    assert [a.word for a in answers] == ["appended", "appended", "full"]
    assert answers[2].depth == 2
    assert [a.word for a in await stage.ledger.append(lane, entries)] == ["exists", "exists", "full"]
    await stage.ledger.cancel(entries[0].intent.id)
    assert [a.word for a in await stage.ledger.append(lane, entries[2:])] == ["appended"]


@promise
async def lane_that_nobody_registered_is_closed_to_appends(stage: Stage) -> None:
    entry = await stage.entry("near:net:never:1")
    assert [a.word for a in await stage.ledger.append("near:net:never:1", [entry])] == ["closed"]


@promise
async def closed_lane_takes_nothing_and_its_claim_moves(stage: Stage) -> None:
    old, new = await stage.lane("near:net:a:1"), await stage.lane("near:net:b:2")
    entry = await stage.entry(old)
    await stage.ledger.set_lane(old, LaneState.DRAINING)
    await stage.ledger.set_lane(old, LaneState.CLOSED)
    assert [a.word for a in await stage.ledger.append(old, [entry])] == ["closed"]
    moved = await stage.ledger.move(entry.intent.id, entry.life, old, new)
    assert (moved.word, moved.lane, moved.life) == ("renewed", new, entry.life)
    entry = Entry(entry.intent, moved.life, moved.born)
    assert [a.word for a in await stage.ledger.append(new, [entry])] == ["appended"]
    assert (await stage.read(entry)).lane == new


@promise
async def only_the_first_of_two_moves_counts(stage: Stage) -> None:
    entry = await stage.entry("near:net:a:1")
    first = await stage.ledger.move(entry.intent.id, entry.life, "near:net:a:1", "near:net:b:2")
    late = await stage.ledger.move(entry.intent.id, entry.life, "near:net:a:1", "near:net:c:3")
    assert (late.word, late.lane, late.born) == ("renewed", "near:net:b:2", first.born)
    assert (await stage.claim(entry.intent, "near:net:d:4")).lane == "near:net:b:2"


@promise
async def move_of_another_life_is_a_conflict(stage: Stage) -> None:
    entry = await stage.entry("near:net:a:1")
    answer = await stage.ledger.move(entry.intent.id, "another", "near:net:a:1", "near:net:b:2")
    assert answer.word == "conflict"
    missing = await stage.ledger.move(IntentId(POOL, "nobody"), "x", "near:net:a:1", "near:net:b:2")
    assert missing.word == "conflict"
    assert (await stage.claim(entry.intent, "near:net:d:4")).lane == "near:net:a:1"


@promise
async def move_of_a_final_key_answers_its_record(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.settled(fence)
    await stage.ledger.retire(await stage.ledger.unretired(lane, 9))
    answer = await stage.ledger.move(write.id, write.life, lane, "near:net:b:2")
    assert answer.word == "final"
    assert answer.record == await stage.read(write)


@promise
async def renewed_claim_may_append_again(stage: Stage) -> None:
    lane = await stage.lane()
    entry = await stage.entry(lane)
    again = await stage.claim(entry.intent, "near:net:b:2")
    assert again.born >= entry.born
    answers = await stage.ledger.append(lane, [Entry(entry.intent, again.life, again.born)])
    assert [a.word for a in answers] == ["appended"]


@promise
async def ring_change_between_claim_and_retry_keeps_lane_and_record(stage: Stage) -> None:
    lane = await stage.lane("near:net:a:1")
    [entry] = await stage.queued(lane)
    await stage.lane("near:net:b:2")
    await stage.ledger.set_lane(lane, LaneState.DRAINING)
    again = await stage.claim(entry.intent, "near:net:b:2")
    assert (again.word, again.lane) == ("renewed", lane)
    replay = await stage.ledger.append(again.lane, [Entry(entry.intent, again.life, again.born)])
    assert [a.word for a in replay] == ["exists"]
    view = await stage.ledger.lane("near:net:b:2")
    assert view is not None
    assert view.depth == 0


@promise
async def crash_between_claim_and_append_is_healed_by_the_same_key(stage: Stage) -> None:
    lane = await stage.lane()
    lost = await stage.entry(lane)
    assert await stage.ledger.read(lost.intent.id) is None
    again = await stage.claim(lost.intent, lane)
    assert (again.word, again.life) == ("renewed", lost.life)
    assert [a.word for a in await stage.ledger.append(lane, [Entry(lost.intent, again.life, again.born)])] == [
        "appended"
    ]
    # the first producer wakes up late
    assert [a.word for a in await stage.ledger.append(lane, [lost])] == ["exists"]
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert view.depth == 1


@promise
async def draining_paused_and_quarantined_lanes_still_accept(stage: Stage) -> None:
    lane = await stage.lane()
    for depth, state in enumerate((LaneState.DRAINING, LaneState.PAUSED, LaneState.QUARANTINED), start=1):
        await stage.ledger.set_lane(lane, state)
        await stage.queued(lane)
        view = await stage.ledger.lane(lane)
        assert view is not None
        assert view.depth == depth


# -- aliases


@promise
async def alias_answers_with_the_target(stage: Stage) -> None:
    lane = await stage.lane()
    own, target = stage.intent("own"), stage.intent("delegate:1")
    answer = await stage.ledger.alias(own.id, own.fingerprint, target.id)
    assert (answer.word, answer.alias_of) == ("alias", target.id)
    assert await stage.ledger.read(own.id) is None
    await stage.ledger.append(lane, [await stage.entry(lane, target)])
    record = await stage.ledger.read(own.id)
    assert record is not None
    assert record.id == target.id
    claimed = await stage.claim(own, lane)
    assert (claimed.word, claimed.alias_of) == ("alias", target.id)


@promise
async def alias_with_another_payload_is_a_conflict(stage: Stage) -> None:
    own = stage.intent("own")
    await stage.ledger.alias(own.id, own.fingerprint, IntentId(POOL, "delegate:1"))
    assert (await stage.ledger.alias(own.id, "v1:other", IntentId(POOL, "delegate:2"))).word == "conflict"
    assert (await stage.claim(stage.intent("own", amount="9"), "near:net:a:1")).word == "conflict"
    again = await stage.ledger.alias(own.id, own.fingerprint, IntentId(POOL, "delegate:2"))
    assert (again.word, again.alias_of) == ("alias", IntentId(POOL, "delegate:1"))


@promise
async def alias_of_a_claimed_key_tells_what_is_there(stage: Stage) -> None:
    lane = await stage.lane()
    [entry] = await stage.queued(lane)
    answer = await stage.ledger.alias(entry.intent.id, entry.intent.fingerprint, IntentId(POOL, "delegate:1"))
    assert (answer.word, answer.lane, answer.life) == ("renewed", lane, entry.life)
    fence = await stage.own(lane)
    await stage.ledger.cancel(entry.intent.id)
    await stage.ledger.retire(await stage.ledger.unretired(lane, 9))
    answer = await stage.ledger.alias(entry.intent.id, entry.intent.fingerprint, IntentId(POOL, "delegate:1"))
    assert answer.word == "final"
    assert answer.record == await stage.read(entry)
    assert await stage.ledger.release(fence)


@promise
async def keys_that_alias_each_other_read_as_unknown(stage: Stage) -> None:
    a, b = IntentId(POOL, "a"), IntentId(POOL, "b")
    await stage.ledger.alias(a, "v1:a", b)
    await stage.ledger.alias(b, "v1:b", a)
    assert await stage.ledger.read(a) is None


# -- cancel


@promise
async def cancel_of_a_queued_intent_ends_it_at_once(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    first, second = await stage.queued(lane, 2)
    assert len(await stage.ledger.take(fence, 9)) == 2
    record = await stage.ledger.cancel(first.intent.id)
    assert (record.status, record.outcome is not None) == (Status.CANCELLED, True)
    assert await stage.ledger.cancel(first.intent.id) == record
    assert [t.intent.id for t in await stage.ledger.take(fence, 9)] == [second.intent.id]
    assert (await stage.statuses(lane))[2:] == [(first.intent.id.key, "cancelled")]
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.depth, view.unretired) == (1, 1)


@promise
async def cancel_of_an_inflight_intent_asks_its_owner_once(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    before = (await stage.ledger.renew([fence], LONG_MS))[0].asks
    record = await stage.ledger.cancel(write.id)
    assert (record.status, record.cancel_requested) == (Status.INFLIGHT, True)
    assert (await stage.ledger.cancel(write.id)).cancel_requested
    assert (await stage.ledger.renew([fence], LONG_MS))[0].asks == before + 1
    [unfinished] = await stage.ledger.unfinished(fence)
    assert unfinished.cancel_requested


@promise
async def cancel_of_a_held_intent_keeps_the_operators_word(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    await stage.ledger.resolve(write.id, {"verb": "track"})
    record = await stage.ledger.cancel(write.id)
    assert (record.status, record.cancel_requested, record.directive) == (Status.HELD, True, {"verb": "track"})


@promise
async def cancel_of_a_final_intent_is_not_allowed(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    with pytest.raises(NotAllowed, match="done already"):
        await stage.ledger.cancel(write.id)
    await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9))
    with pytest.raises(NotAllowed, match="done already"):
        await stage.ledger.cancel(write.id)
    with pytest.raises(NotFound):
        await stage.ledger.cancel(IntentId(POOL, "nobody"))


@promise
async def cancelled_intent_is_never_signed(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [entry] = await stage.queued(fence.lane)
    [taken] = await stage.ledger.take(fence, 1)
    await stage.ledger.cancel(entry.intent.id)
    write = stage.write(entry, await stage.cursor(fence.lane), position=taken.position)
    with pytest.raises(Exception, match="not the oldest queued"):
        await stage.ledger.record_attempts(fence, write.attempt.nonce, [write])
    assert (await stage.read(entry)).attempts == ()
