"""What a schema changes on Redis: who may raise it, what is written before and after, and what both read alike."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.ledger.redis_only import redis_of, redis_promise
from txmanager.core.errors import NotAllowed
from txmanager.core.ledger import APPEND_WITHIN_MS, SCHEMA, Member, Settlement
from txmanager.core.models import Event, LaneSpec, Outcome, failure, new_intent
from txmanager.core.positions import START, place
from txmanager.core.states import LaneState, Status
from txmanager.ledger.redis import RedisLedger, codec
from txmanager.testing.ledger.aside import aside
from txmanager.testing.ledger.home_at_once import end_of
from txmanager.testing.ledger.stage import BASE, LONG_MS, POOL, Stage

_MANY = 5_000
"""Events of a lane between two marks."""


def redis_of_again(stage: Stage, **options: object) -> RedisLedger:
    again = stage.again(**options)
    assert isinstance(again, RedisLedger)
    return again


async def schema_of(stage: Stage, lane: str) -> int:
    view = await stage.ledger.lane(lane)
    assert view is not None
    return view.schema


# -- who may raise it


@redis_promise
async def new_installation_writes_the_newest_formats_and_an_older_one_waits(stage: Stage) -> None:
    ledger = redis_of(stage)
    assert await ledger.schema() == await schema_of(stage, await stage.lane())
    await ledger.runner.plain(ledger._keys.schema, ("DEL", ledger._keys.schema))  # release 0.1.0 has none
    ledger._schema = 0
    assert await ledger.schema() == 1, "it has lanes, and nobody said that what made them is gone"


@redis_promise
async def upgrade_raises_the_installation_and_every_lane_once(stage: Stage) -> None:
    ledger, lane = redis_of(stage), await stage.lane()
    before = await schema_of(stage, lane)
    assert await ledger.upgrade() == ([lane] if before < SCHEMA else [])
    assert await ledger.upgrade() == []
    assert await schema_of(stage, lane) == SCHEMA
    other = stage.again()
    assert await other.schema() == SCHEMA
    assert (await other.register(LaneSpec("near:net:b:2", POOL))).schema == SCHEMA


@redis_promise
async def upgrade_waits_until_no_older_worker_is_alive(stage: Stage) -> None:
    ledger, lane = redis_of(stage), await stage.lane()
    members, deadlines, _ = ledger._keys.of_members
    now = await ledger.now_ms()
    older = codec.dumps({"name": "old", "lanes": [lane]})  # as release 0.1.0 tells of itself
    await ledger.runner.plain(members, ("HSET", members, "old", older), ("ZADD", deadlines, now + LONG_MS, "old"))
    before = await schema_of(stage, lane)
    for call in (ledger.check_upgrade, ledger.upgrade):
        with pytest.raises(NotAllowed, match="worker old"):
            await call()
    assert await schema_of(stage, lane) == before
    await ledger.leave("old")
    await ledger.heartbeat(Member("new", frozenset({lane})), LONG_MS)
    await ledger.upgrade()
    assert await schema_of(stage, lane) == SCHEMA


@redis_promise
async def lane_that_was_not_in_the_registry_is_raised_when_it_comes_back(stage: Stage) -> None:
    ledger, lane = redis_of(stage), await stage.lane()
    await ledger.runner.run("unpublish", ledger._keys.of_registry, (lane,))
    assert await ledger.upgrade() == []
    await stage.lane()
    assert await schema_of(stage, lane) == SCHEMA
    assert (await stage.queued(lane))[0].life
    groups = ("XINFO", "GROUPS", ledger._keys.queue(lane))
    assert await ledger.runner.plain(groups[2], groups) == [[]], "an older owner takes no more"


@redis_promise
async def lane_that_an_operator_paused_stays_paused_when_it_is_registered_again(stage: Stage) -> None:
    lane = await stage.lane()
    await stage.ledger.set_lane(lane, LaneState.PAUSED, "why")
    assert (await stage.ledger.register(LaneSpec(lane, POOL))).state is LaneState.PAUSED


@redis_promise
async def schema_is_never_lowered(stage: Stage) -> None:
    ledger, lane = redis_of(stage), await stage.lane()
    await ledger.upgrade()
    [answer] = await ledger.runner.plain(ledger._keys.schema, ("GET", ledger._keys.schema))
    for word in ("", "raise"):
        assert await ledger.runner.run("schema", [ledger._keys.registry, ledger._keys.schema], (1, word)) == SCHEMA
    assert await ledger.runner.run("raise", [ledger._keys.lane(lane), ledger._keys.queue(lane)], (1,)) == 0
    await ledger.runner.run("register", ledger._lane_keys(lane), (codec.pack_spec(LaneSpec(lane, POOL)), 9, 1, ""))
    assert await schema_of(stage, lane) == SCHEMA
    assert int(answer) == SCHEMA


@redis_promise
async def append_of_an_older_release_finds_no_room_in_a_raised_lane(stage: Stage) -> None:
    """It looks at `limit`; and it would neither look at the home nor leave the stream of events as it is."""
    ledger, lane = redis_of(stage), await stage.lane(queue_limit=7)
    key = ledger._keys.lane(lane)
    [before] = await ledger.runner.plain(key, ("HGET", key, "limit"))
    assert int(before) == (7 if await schema_of(stage, lane) < 2 else 0)
    await ledger.upgrade()
    assert await ledger.runner.plain(key, ("HMGET", key, "limit", "most")) == [[b"0", b"7"]]
    assert len(await stage.queued(lane, 7)) == 7
    [full] = await ledger.append(lane, [await stage.entry(lane)])
    assert full.word == "full"


@redis_promise
async def what_an_older_release_read_through_the_group_is_acknowledged(stage: Stage) -> None:
    ledger, lane = redis_of(stage), await stage.lane()
    fence = await stage.own(lane)
    queue = ledger._keys.queue(lane)
    if await schema_of(stage, lane) >= 2:
        assert await ledger.runner.plain(queue, ("EXISTS", queue)) == [0], "nobody needs a group"
        return
    bad = await aside(stage, fence)
    ended, killed = await stage.queued(lane, 2)
    read = ("XREADGROUP", "GROUP", "lane", "owner", "COUNT", 9, "STREAMS", queue, "0" if bad is None else ">")
    await ledger.runner.plain(queue, read)
    [first, _] = await ledger.take(fence, 9)
    write = stage.write(ended, BASE, position=first.position)
    await ledger.record_attempts(fence, BASE, [write])
    await ledger.settle(fence, [stage.done(write)])
    await ledger.cancel(killed.intent.id)
    [entry] = await stage.queued(lane)
    await ledger.runner.plain(queue, read)
    [last] = await ledger.take(fence, 9)
    assert await ledger.set_aside(fence, last, "reason", {})
    assert (await stage.read(entry)).status is Status.HELD
    [pending] = await ledger.runner.plain(queue, ("XPENDING", queue, "lane"))
    assert pending[0] == 0


# -- events


async def all_events(stage: Stage, lane: str, count: int) -> list[Event]:
    found: list[Event] = []
    while page := await stage.ledger.events(lane, found[-1].id if found else START, count):
        assert len(page) <= count
        found += page
    return found


@redis_promise
async def pages_of_events_begin_and_end_within_a_step(stage: Stage) -> None:
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    writes = await stage.inflight(fence, 7)
    await ledger.settle(fence, [stage.done(write) for write in writes])
    stream = ledger._keys.events(fence.lane)
    [entries] = await ledger.runner.plain(stream, ("XLEN", stream))
    assert entries == (21 if await schema_of(stage, fence.lane) < 2 else 3)
    whole = await ledger.events(fence.lane, START, 100)
    assert [e.status.value for e in whole] == ["queued"] * 7 + ["inflight"] * 7 + ["done"] * 7
    assert [e.intent for e in whole] == [w.id for w in writes] * 3
    assert [e.tx_hash for e in whole[7:]] == [w.attempt.hash for w in writes] * 2
    places = [place(e.id) for e in whole]
    assert places == sorted(set(places)), "each has a place of its own, in order"
    if entries == 3:
        assert [count for _, count in places] == list(range(1, 22)), "counted from the first event of the lane"
    for count in (1, 2, 3, 5, 8, 20, 21):
        assert await all_events(stage, fence.lane, count) == whole
    for number, event in enumerate(whole):
        assert await ledger.events(fence.lane, event.id, 100) == whole[number + 1 :]


@redis_promise
async def events_are_trimmed_by_their_number(stage: Stage) -> None:
    """Of steps with any number of events, about the last 10,000 events stay."""
    lane = await stage.lane()
    if await schema_of(stage, lane) < 2:
        return
    ledger = redis_of(stage)
    key = ledger._keys.lane(lane)
    for n in range(1, 5):
        # as if all of a mark but the last had happened
        [told] = await ledger.runner.plain(key, ("HGET", key, "told"))
        ms = int((told or b"0 0").split()[0])
        await ledger.runner.plain(key, ("HSET", key, "told", f"{ms} {n * _MANY - 1}"))
        await stage.queued(lane, 2)
    found = await all_events(stage, lane, 500)
    assert [place(e.id)[1] for e in found] == [
        2 * _MANY,
        2 * _MANY + 1,
        3 * _MANY,
        3 * _MANY + 1,
        4 * _MANY,
        4 * _MANY + 1,
    ]


@redis_promise
async def clock_that_was_set_back_keeps_events_in_order(stage: Stage) -> None:
    lane = await stage.lane()
    if await schema_of(stage, lane) < 2:
        return
    ledger = redis_of(stage)
    key = ledger._keys.lane(lane)
    await stage.queued(lane)
    [told] = await ledger.runner.plain(key, ("HGET", key, "told"))
    late = int(told.split()[0]) + 3_600_000
    await ledger.runner.plain(key, ("HSET", key, "told", f"{late} 7"))
    await stage.queued(lane, 2)
    first, second, third = await ledger.events(lane, START, 9)
    assert [place(e.id) for e in (second, third)] == [(late, 8), (late, 9)]
    assert place(first.id)[0] < late
    assert second.at < late - 3_000_000, "they still say when they happened"


@redis_promise
async def event_that_somebody_else_wrote_loses_no_step(stage: Stage) -> None:
    """An API of release 0.1.0 that nobody stopped cancels an intent: its event has an id of the server's making."""
    ledger, lane = redis_of(stage), await stage.lane()
    await stage.queued(lane)
    stream = ledger._keys.events(lane)
    far = int((await ledger.events(lane))[-1].id.partition("-")[0]) + 3_600_000
    fields = ("i", f"default/{POOL}/k", "s", "cancelled", "t", far)
    await ledger.runner.plain(stream, ("XADD", stream, f"{far}-0", *fields))
    await stage.queued(lane, 2)
    found = await all_events(stage, lane, 2)
    assert [e.status.value for e in found][:2] == ["queued", "cancelled"]
    assert len(found) >= 3
    assert await stage.ledger.lane(lane) is not None


@redis_promise
async def step_behind_a_later_event_keeps_the_place_of_each(stage: Stage) -> None:
    """Of somebody else, or of a clock that was set back before the lane was raised. A place below 0 cannot be read on
    from, and of two events with one place the second is never read."""
    ledger = redis_of(stage)
    for number in (0, 2):
        lane = await stage.lane(f"near:net:a:{number}")
        await stage.queued(lane)
        stream = ledger._keys.events(lane)
        far = int((await ledger.events(lane))[-1].id.partition("-")[0]) + 3_600_000
        fields = ("i", f"default/{POOL}/k", "s", "cancelled", "t", far)
        await ledger.runner.plain(stream, ("XADD", stream, f"{far}-{number}", *fields))
        await stage.queued(lane, 3)
        await stage.queued(lane, 3)
        for count in (1, 2, 9):
            found = await all_events(stage, lane, count)
            assert [e.status.value for e in found] == ["queued", "cancelled"] + ["queued"] * 6
        places = [place(e.id) for e in found]
        assert places == sorted(set(places))


@redis_promise
async def words_of_an_error_do_not_break_the_line_of_an_event(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    assert await stage.ledger.hold(fence, write.id, write.life, "a\tb\nc", {})
    event = (await stage.ledger.events(fence.lane, START, 9))[-1]
    assert (event.status.value, event.error) == ("held", "a b c")


# -- ends


@redis_promise
async def end_in_a_lane_of_schema_1_leaves_a_tombstone(stage: Stage) -> None:
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    if not (await stage.settle_one(fence, await end_of(stage, write))).retired:
        pytest.fail("one server holds both")
    key = ledger._keys.record(fence.lane, write.id)
    [status] = await ledger.runner.plain(key, ("HGET", key, "s"))
    assert status == (b"retired" if await schema_of(stage, fence.lane) < 2 else None)


@redis_promise
async def end_whose_key_lives_again_leaves_a_tombstone(stage: Stage) -> None:
    """Its home belongs to the next life, and says nothing of this one."""
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    ended = await end_of(stage, write)
    await stage.expire("home", write.id)
    await stage.claim(stage.intent(write.id.key), "near:net:b:2", "second-life")
    assert (await stage.settle_one(fence, ended)).retired
    key = ledger._keys.record(fence.lane, write.id)
    assert await ledger.runner.plain(key, ("HGET", key, "s")) == [b"retired"]


@redis_promise
async def end_whose_home_is_kept_for_short_leaves_a_tombstone(stage: Stage) -> None:
    assert not redis_of_again(stage, retention_ms=APPEND_WITHIN_MS)._one_step
    ledger, lane = redis_of(stage), await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.inflight(fence)
    with patch.object(ledger, "_one_step", False):
        [answer] = await ledger.settle(fence, [await end_of(stage, write)], BASE)
    assert answer.retired
    key = ledger._keys.record(lane, write.id)
    assert await ledger.runner.plain(key, ("HGET", key, "s")) == [b"retired"]


@redis_promise
async def record_that_leaves_the_queue_says_what_its_entry_said(stage: Stage) -> None:
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    intent = new_intent(
        key="told", pool=POOL, kind="near.transfer", payload={"to": "bob"}, metadata={"order": 7}, max_age_s=9
    )
    queued = await stage.entry(fence.lane, intent)
    await ledger.append(fence.lane, [queued])
    before = await stage.read(queued)
    assert (before.intent, before.created_at) == (queued.intent, before.updated_at)
    cancelled = await ledger.cancel(queued.intent.id)
    other = await stage.entry(fence.lane, replace(intent, id=replace(intent.id, key="other")))
    await ledger.append(fence.lane, [other])
    [first] = await ledger.take(fence, 9)
    write = stage.write(other, BASE, position=first.position)
    await ledger.record_attempts(fence, BASE, [write])
    flying = await stage.read(write)
    assert flying.intent.metadata == {"order": 7}
    await ledger.settle(fence, [stage.done(write)])
    done = await stage.read(write)
    for was, now in ((before, cancelled), (flying, done)):
        assert replace(now.intent, payload=was.intent.payload) == was.intent
        assert (now.created_at, now.position) == (was.created_at, was.position)


@redis_promise
async def what_was_signed_in_either_schema_is_unfinished_until_it_ends(stage: Stage) -> None:
    """Schema 1 keeps a set of it, schema 2 a number: the first so many entries of the queue."""
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())

    async def shown() -> tuple[int, list[str], list[str]]:
        view = await ledger.lane(fence.lane)
        assert view is not None
        found, pending = await ledger.unfinished(fence), await ledger.pending(fence.lane)
        return view.unfinished, [r.id.key for r in found], [r.id.key for r in pending]

    before = await stage.inflight(fence, 2)
    if await schema_of(stage, fence.lane) < 2:
        kept = ledger._keys.unfinished(fence.lane)
        assert await ledger.runner.plain(kept, ("SCARD", kept)) == [2], "an owner of release 0.1.0 reads them there"
    out = await aside(stage, fence)
    await ledger.upgrade()
    since = await stage.inflight(fence, 2)
    await stage.queued(fence.lane)
    keys = [w.id.key for w in (*before, *since)]
    assert await shown() == (5, keys, keys), "with the one that was set aside, which has no attempt"
    await ledger.settle(fence, [stage.done(before[1]), stage.done(since[0])])
    left = [before[0].id.key, since[1].id.key]
    assert await shown() == (3, left, left)
    await ledger.settle(fence, [stage.done(before[0])])
    await ledger.cancel(out.intent.id)
    [unsigned] = await ledger.take(fence, 9)
    failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
    await ledger.settle(fence, [Settlement(unsigned.intent.id, unsigned.life, unsigned.position, failed)])
    assert await shown() == (1, left[1:], left[1:])
    await ledger.settle(fence, [stage.done(since[1])])
    assert await shown() == (0, [], [])


@redis_promise
async def every_page_of_what_is_unfinished_is_read(stage: Stage) -> None:
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    writes = await stage.inflight(fence, 230)
    await stage.queued(fence.lane, 3)
    assert [r.id for r in await ledger.unfinished(fence)] == [w.id for w in writes]


@redis_promise
async def intent_that_was_set_aside_keeps_its_age(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    entry = await aside(stage, fence)
    record = await stage.read(entry)
    assert record.created_at == place(record.position)[0]
    while await redis_of(stage).now_ms() <= record.created_at:
        pass  # a new entry of the same millisecond would be as old
    again = await stage.ledger.reseal(record, "seal")
    assert again
    queued = await stage.read(entry)
    assert (queued.status, queued.created_at) == (Status.QUEUED, record.created_at)
    assert queued.position != record.position


@redis_promise
async def replay_of_an_end_moves_nothing(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    writes = await stage.inflight(fence, 2)
    ends = [await end_of(stage, write) for write in writes]
    first = await stage.ledger.settle(fence, ends, BASE)
    told = await stage.ledger.events(fence.lane)
    assert [a.word for a in await stage.ledger.settle(fence, ends, BASE)] == ["gone", "gone"]
    assert [a.retired for a in first] == [True, True]
    assert await stage.ledger.events(fence.lane) == told
