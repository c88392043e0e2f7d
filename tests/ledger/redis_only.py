"""What Redis makes possible to break and memory does not: writes on replay, a full server, the registry's order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from tests.waiting import until
from txmanager.core.alerts import Alert
from txmanager.core.audit import AuditEntry
from txmanager.core.budgets import EVER, Budget, Charge
from txmanager.core.errors import LaneClosed, MemoryFull, NotFound
from txmanager.core.ledger import APPEND_WITHIN_MS, Entry, Landed, Member, Route, Settlement
from txmanager.core.models import IntentId, Lane, LaneSpec, Outcome, Purpose, failure
from txmanager.core.quotas import Room, Share
from txmanager.core.seal import BAD_SEAL
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause, StopCause
from txmanager.ledger.redis import RedisLedger, codec
from txmanager.ledger.redis.keys import Keys
from txmanager.ledger.redis.runner import Call
from txmanager.ledger.redis.wire import Command
from txmanager.testing.ledger.aside import WHY, aside, sealed_entry
from txmanager.testing.ledger.attempts import other, resign, taken
from txmanager.testing.ledger.budgets import (
    HOUR_MS,
    TOKEN,
    WIDE,
    charge,
    charged_entry,
    correct,
    counted,
    due,
    ended,
    usage,
)
from txmanager.testing.ledger.hints import ahead, brought, told
from txmanager.testing.ledger.home_at_once import end_of
from txmanager.testing.ledger.registry import Promise
from txmanager.testing.ledger.reservations import keyless, owned, send, sent
from txmanager.testing.ledger.sessions import CODE, ISSUER, OTHER, digest
from txmanager.testing.ledger.stage import BASE, LONG_MS, POOL, Stage
from txmanager.testing.ledger.watchers import noop

REDIS_PROMISES: dict[str, Promise] = {}


def redis_promise(check: Promise) -> Promise:
    REDIS_PROMISES[check.__name__] = check
    return check


def redis_of(stage: Stage) -> RedisLedger:
    assert isinstance(stage.ledger, RedisLedger)
    return stage.ledger


# -- beside release 0.1.0, which stores state, reason and evidence alone


@redis_promise
async def stop_of_an_older_release_is_read_by_its_words(stage: Stage) -> None:
    ledger, lane = redis_of(stage), await stage.lane()
    key = ledger._keys.lane(lane)

    async def older(state: str, reason: str) -> Lane:
        """As its set_lane writes; our `stop` of an earlier state stays behind."""
        fields = ("state", state, "reason", reason, "evidence", "{}")
        await ledger.runner.plain(key, ("HSET", key, *fields))
        view = await ledger.lane(lane)
        assert view is not None
        return view

    for left in (None, PauseCause.FUNDS, PauseCause.HELD):
        if left is not None:
            await ledger.set_lane(lane, LaneState.PAUSED, "left behind", {"balance": "1"}, cause=left)
        for state, reason, cause, command in OLD_STOPS:
            view = await older(state, reason)
            assert (view.cause, view.command) == (cause, command), (left, reason)
        assert (await older("active", "")).cause is None


OLD_STOPS: list[tuple[str, str, StopCause | None, LaneCommand | None]] = [
    ("paused", "by hand", PauseCause.OPERATOR, None),
    ("paused", "insufficient_funds", PauseCause.FUNDS, None),
    ("paused", "held: order-7 (no_proof)", PauseCause.HELD, None),
    ("paused", "rebaseline", PauseCause.OPERATOR, LaneCommand.REBASELINE),
    ("paused", "rebaseline, and stay paused", PauseCause.OPERATOR, LaneCommand.REBASELINE_PAUSED),
    ("quarantined", "ledger_rolled_back", QuarantineCause.ROLLED_BACK, None),
    ("quarantined", "something else", None, None),
]


# -- WAIT means nothing unless the script wrote


@contextmanager
def changes(ledger: RedisLedger) -> Iterator[list[int]]:
    """How much each call in this block changed. A transaction reads the server's count before and after the call: what
    others write to the same server meanwhile does not show in it."""
    link, seen, look = ledger.runner._link, list[int](), ("INFO", "persistence")
    call = link.call

    def count(info: bytes) -> int:
        fields = dict(line.split(b":", 1) for line in info.split(b"\r\n") if b":" in line)
        return int(fields[b"rdb_changes_since_last_save"])

    async def measured(key: str, commands: Sequence[Command], *, durable: bool = False) -> list[Any]:
        told = await call(key, [("MULTI",), look, *commands, look, ("EXEC",)], durable=durable)
        before, *replies, after = told[-1]
        seen.append(count(after) - count(before))
        return replies

    with patch.object(link, "call", measured):
        yield seen


@redis_promise
async def replay_of_every_durable_call_writes(stage: Stage) -> None:
    ledger = redis_of(stage)
    calls: list[Call] = []
    run_many = ledger.runner.run_many

    async def listening(batch: Sequence[Call], *, durable: bool = False) -> list[Any]:
        calls.extend(batch if durable else [])
        return await run_many(batch, durable=durable)

    ledger.runner.run_many = listening  # type: ignore[assignment, method-assign]

    async def all_write() -> None:
        for call in list(calls):
            with changes(ledger) as changed:
                await run_many([call])
            assert sum(changed) > 0, f"{call.script} answered without a write"

    lane = await stage.lane()
    fence = await stage.own(lane)
    [one, two, three] = await stage.inflight(fence, 3)
    await ledger.fill(fence, [noop(BASE - 1)])
    await ledger.archive(lane, None)
    await all_write()
    await ledger.cancel(one.id)
    failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
    await ledger.settle(fence, [replace(stage.done(one), outcome=failed, deaths={one.attempt.name: {}})])
    await ledger.settle(fence, [stage.done(two)])
    await ledger.set_lane(lane, LaneState.DRAINING, "why")
    await all_write()
    await ledger.settle(fence, [await end_of(stage, three)])
    await ledger.retire(await ledger.unretired(lane, 9))
    await ledger.move(one.id, one.life, lane, "near:net:b:2")
    await ledger.alias(one.id, stage.intent(one.id.key).fingerprint, two.id)
    calls[:] = [c for c in calls if c.script not in ("cancel", "settle", "record_attempts")]  # answered "gone" now
    await all_write()
    assert {c.script for c in calls} >= {
        "claim",
        "append",
        "baseline",
        "fill",
        "set_lane",
        "register",
        "retire_home",
        "move",
        "alias",
    }


@redis_promise
async def lone_entry_and_a_few_ends_travel_with_their_wake_ups(stage: Stage) -> None:
    await redis_of(stage).upgrade()
    lane = await stage.lane()
    fence = await stage.own(lane)
    entry = await brought(stage, lane)
    assert entry is not None
    write = ahead(stage, entry)
    await stage.ledger.record_attempts(fence, BASE, [write])
    done = Settlement.of(await stage.read(write), stage.done(write).outcome, {})
    record = await told(stage, lane, done, fence)
    assert record is not None
    assert record == await stage.read(write)


@redis_promise
async def large_entry_is_taken_and_not_brought(stage: Stage) -> None:
    lane = await stage.lane()
    await stage.own(lane)
    while await stage.ledger.wait_wake([lane], 0.1):
        pass
    await stage.ledger.append(lane, [await stage.entry(lane, stage.intent("large", memo="x" * 4096))])
    assert await stage.ledger.wait_wake([lane], 30) == {lane}
    assert stage.ledger.heard(lane) is None


@redis_promise
async def wake_up_that_cannot_be_read_brings_no_entry(stage: Stage) -> None:
    """Anybody may speak on the channel; what its owner compares must be comparable."""
    lane, ledger = await stage.lane(), redis_of(stage)
    channel = ledger._keys.wake(lane)
    while await ledger.wait_wake([lane], 0.1):
        pass
    for position in ("", "5", "5-", "5-x", "5-3-2", "x-1"):
        said = "\n".join(("entry", position, "t/p/k", "life", "print", "near.transfer", "", "{}"))
        await ledger.runner.plain(channel, ("PUBLISH", channel, said))
        assert await ledger.wait_wake([lane], 30) == {lane}
        assert ledger.heard(lane) is None, position


@redis_promise
async def words_that_are_no_text_cost_nobody_the_subscription(stage: Stage) -> None:
    lane, ledger = await stage.lane(), redis_of(stage)
    id, channel = stage.intent("k1").id, ledger._keys.final(lane)
    await ledger.wait_final(lane, id, 0.5)
    connection = ledger._subscriber._connection
    caller = asyncio.create_task(ledger.wait_final(lane, id, 30))
    await asyncio.sleep(0.01)
    await ledger.runner.plain(channel, ("PUBLISH", channel, b"\xff\n> \xff"))
    await ledger.runner.plain(channel, ("PUBLISH", channel, id.text))
    assert await asyncio.wait_for(caller, 20) is None
    assert ledger._subscriber._connection is connection


@redis_promise
async def many_ends_travel_as_ids_alone(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    writes = await stage.inflight(fence, 5)
    ends = [await end_of(stage, write) for write in writes]
    await stage.ledger.wait_final(fence.lane, writes[0].id, 0.05)
    caller = asyncio.create_task(stage.ledger.wait_final(fence.lane, writes[0].id, 30))
    await asyncio.sleep(0.01)
    await stage.ledger.settle(fence, ends)
    assert await asyncio.wait_for(caller, 20) is None


@redis_promise
async def large_end_is_read_and_not_told(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    outcome = replace(stage.done(write).outcome, result={"log": "x" * 2048})
    assert await told(stage, fence.lane, Settlement.of(await stage.read(write), outcome, {}), fence) is None


@redis_promise
async def lane_of_the_first_schema_says_only_what_release_0_1_0_knows(stage: Stage) -> None:
    """Its workers ring for `append` and `ask`, and for nothing else."""
    lane, ledger = await stage.lane(), redis_of(stage)
    await stage.own(lane)
    await ledger.runner.plain(ledger._keys.lane(lane), ("HSET", ledger._keys.lane(lane), "schema", "1"))
    assert await brought(stage, lane) is None


@redis_promise
async def keyless_lane_brings_no_entry(stage: Stage) -> None:
    lane = await keyless(stage)
    while await stage.ledger.wait_wake([lane], 0.1):
        pass
    await sent(stage, lane, "t1", "0xa")
    assert await stage.ledger.wait_wake([lane], 30) == {lane}
    assert stage.ledger.heard(lane) is None


@redis_promise
async def answer_that_a_lane_is_closed_writes_too(stage: Stage) -> None:
    """Whoever hears it gives the lane up: a closing that a failover forgot must not have been heard."""
    ledger, lane = redis_of(stage), await stage.lane()
    await ledger.set_lane(lane, LaneState.DRAINING)
    closed = await ledger.set_lane(lane, LaneState.CLOSED)
    with changes(ledger) as changed, pytest.raises(LaneClosed):
        await ledger.register(closed.spec)
    assert sum(changed) > 0


# -- logging in


@redis_promise
async def replay_of_every_login_writes(stage: Stage) -> None:
    """A failover must bring back neither a code that was used nor a session that was ended."""
    ledger = redis_of(stage)
    await ledger.offer_code(ISSUER, CODE)
    for _ in range(2):
        with changes(ledger) as changed:
            assert await ledger.open_session(ISSUER, CODE, digest("s")) is not None
        assert sum(changed) > 0
    for _ in range(2):
        with changes(ledger) as changed:
            await ledger.end_session(ISSUER, digest("s"))
        assert sum(changed) > 0
    with changes(ledger) as changed:
        assert await ledger.open_session(ISSUER, CODE, digest("thief")) is None
    assert sum(changed) > 0


@redis_promise
async def codes_and_sessions_are_forgotten_in_time(stage: Stage) -> None:
    ledger = redis_of(stage)
    keys = Keys(ledger._keys.prefix)

    async def left(key: str) -> int:
        [ms] = await ledger.runner.plain(key, ("PTTL", key))
        return int(ms)

    await ledger.offer_code(ISSUER, CODE, LONG_MS)
    await ledger.offer_code(ISSUER, digest("short"), 1_000)
    assert LONG_MS - 60_000 < await left(keys.codes(ISSUER)) <= LONG_MS, "a short code takes no other one away"
    assert await ledger.open_session(ISSUER, digest("unknown"), digest("s")) is None
    assert 0 < await left(keys.sessions(ISSUER)) <= 60_000
    assert await ledger.open_session(ISSUER, CODE, digest("s"), lasts_ms=LONG_MS) is not None
    assert LONG_MS - 60_000 < await left(keys.sessions(ISSUER)) <= LONG_MS
    await ledger.end_session(OTHER, digest("s"))
    assert 0 < await left(keys.sessions(OTHER)) <= 60_000


# -- budgets


@redis_promise
async def replay_of_every_charge_and_correction_writes(stage: Stage) -> None:
    """A caller acts on the answer: what it rests on must not be lost with the primary."""
    ledger = redis_of(stage)

    async def written(act: Awaitable[object]) -> bool:
        with changes(ledger) as changed:
            await act
        return sum(changed) > 0

    for _ in range(2):
        assert await written(charge(stage, "a", 10))
    for _ in range(2):
        assert await written(correct(stage, "a", 5))
    for _ in range(2):
        assert await written(ledger.override(TOKEN.name, 7, None))
    for _ in range(2):
        assert await written(ledger.override(TOKEN.name, None, 7))
        assert await written(ledger.override("pool:never-charged/ever", None, None))


@redis_promise
async def idle_budget_is_forgotten_and_one_in_use_or_with_an_override_is_not(stage: Stage) -> None:
    ledger = redis_of(stage)
    book, spent, _, _ = ledger._keys.budget(TOKEN.name)

    async def left() -> list[int]:
        return [int(ms) for ms in await ledger.runner.plain(book, ("PTTL", book), ("PTTL", spent))]

    await charge(stage, "a", 10)
    await charge(stage, "b", 10)
    await correct(stage, "a", 5)
    assert await left() == [-1, -1]
    assert await ledger.uncharge("b", {TOKEN.name: 1}) == 1
    span = HOUR_MS + TOKEN.bucket_ms
    assert all(span - 60_000 < ms <= span for ms in await left())
    await charge(stage, "c", 10)
    assert await left() == [-1, -1]
    await correct(stage, "c", 0)
    assert all(span - 60_000 < ms <= span for ms in await left())
    await ledger.override(TOKEN.name, 7, None)
    assert await left() == [-1, -1]
    await ledger.override(TOKEN.name, None, 7)
    assert all(span - 60_000 < ms <= span for ms in await left())


@redis_promise
async def budget_for_ever_is_never_forgotten(stage: Stage) -> None:
    ledger, ever = redis_of(stage), Budget("token:bob/net/ever", 100, EVER)
    await charge(stage, "a", 10, ever)
    await charge(stage, "b", 10, ever)
    await correct(stage, "a", 10, ever)
    await ledger.uncharge("b", {ever.name: 1})
    book, spent, _, _ = ledger._keys.budget(ever.name)
    assert await ledger.runner.plain(book, ("PTTL", book), ("PTTL", spent)) == [-1, -1]


@redis_promise
async def agenda_forgets_what_is_over(stage: Stage) -> None:
    ledger = redis_of(stage)
    agenda = ledger._keys.budget(TOKEN.name)[2]
    await charge(stage, "a", 10)
    await correct(stage, "a", 10)
    assert await ledger.runner.plain(agenda, ("ZRANGE", agenda, 0, -1)) == [[f"e a {TOKEN.name}".encode()]]
    await ledger.runner.plain(agenda, ("ZADD", agenda, 1, f"e a {TOKEN.name}"))
    assert await due(stage) == []
    assert await ledger.runner.plain(agenda, ("ZCARD", agenda)) == [0]


@redis_promise
async def costs_of_before_the_span_leave_the_hash(stage: Stage) -> None:
    ledger = redis_of(stage)
    _, spent, _, _ = ledger._keys.budget(TOKEN.name)
    now = await ledger.now_ms()
    old, kept = str((now - 3 * HOUR_MS) // TOKEN.bucket_ms), str(now // TOKEN.bucket_ms)
    await ledger.runner.plain(spent, ("HSET", spent, old, 90, kept, 10))
    assert (await charge(stage, "a", 90)).word == "charged"
    [fields] = await ledger.runner.plain(spent, ("HKEYS", spent))
    assert fields == [kept.encode()]


@redis_promise
async def budget_of_another_history_refuses_until_it_is_rebuilt(stage: Stage) -> None:
    """`durability = "none"`: nobody vouches for what was written before a restart."""
    ledger, lane = redis_of(stage), await stage.lane()
    live = await charged_entry(stage, lane, 300)
    await ended(stage, 200, 105)
    books = [ledger._keys.budget(budget.name) for budget in (TOKEN, WIDE)]
    for book, spent, agenda, history in books:  # everything is gone, and the history is another one
        await ledger.runner.plain(book, ("DEL", book, spent, agenda), ("SET", history, "another"))
    lost = await charge(stage, "x", 1)
    assert (lost.word, lost.budget) == ("moved", TOKEN)
    assert lost.usage is not None
    assert lost.usage.moved
    assert await counted(stage) == (0, 0)
    assert await ledger.rebuild() == 2
    assert (await usage(stage)).moved is False
    for budget in (TOKEN, WIDE):
        assert await counted(stage, budget) == (30, 11)
    assert await ledger.rebuild() == 0
    await stage.expire("charges")
    assert {one.life for one in await due(stage)} == {live.life}
    assert (await charge(stage, "x", 1)).word == "charged"
    await ledger.cancel(live.intent.id)
    await ledger.retire(await ledger.unretired(lane, 9))
    assert await counted(stage) == (1, 11), "what was put back is corrected like any other"


@redis_promise
async def rebuilding_lowers_nothing_that_stands(stage: Stage) -> None:
    ledger, lane = redis_of(stage), await stage.lane()
    live = await charged_entry(stage, lane, 300)
    await ended(stage, 200, 105)
    for name in (TOKEN.name, WIDE.name):
        _, spent, _, history = ledger._keys.budget(name)
        [[bucket]] = await ledger.runner.plain(spent, ("HKEYS", spent))
        await ledger.runner.plain(spent, ("HSET", spent, bucket, 15), ("SET", history, "another"))
    assert (await charge(stage, live.life, 30)).word == "charged", "what stands there is known, history or not"
    assert (await usage(stage)).moved, "and vouches for nothing else"
    assert await ledger.rebuild() == 2
    assert await counted(stage) == (30, 15)
    assert await counted(stage, WIDE) == (30, 15)


@redis_promise
async def rebuilding_during_another_change_of_history_opens_nothing(stage: Stage) -> None:
    ledger, lane = redis_of(stage), await stage.lane()
    await charged_entry(stage, lane, 300)
    history = ledger._keys.budget(TOKEN.name)[3]
    await ledger.runner.plain(history, ("SET", history, "another"))
    assert await ledger.runner.run("rebuilt", (history,), ("", "what was found then")) == 0
    assert (await charge(stage, "x", 1)).word == "moved"


@redis_promise
async def store_that_vouches_for_its_writes_goes_on_by_itself(stage: Stage) -> None:
    ledger = stage.again(durability="fsync")
    assert isinstance(ledger, RedisLedger)
    ledger.runner.scripts = redis_of(stage).runner.scripts
    await charge(stage, "a", 10)
    history = redis_of(stage)._keys.budget(TOKEN.name)[3]
    await redis_of(stage).runner.plain(history, ("SET", history, "another"))
    assert await ledger.rebuild() == 0
    [found] = await ledger.usage([TOKEN.name])
    assert found.moved is False
    charges = [Charge(IntentId(POOL, "key"), "b", await ledger.now_ms(), 10, (TOKEN,))]
    assert [answer.word for answer in await ledger.charge(charges)] == ["charged"]
    assert (await usage(stage)).moved is False, "the history that it goes on in is the budget's, too"


# -- room in the queues


@redis_promise
async def empty_queue_owes_no_room_whatever_an_older_release_forgot(stage: Stage) -> None:
    """A worker of release 0.1.0 ends intents without giving their room back."""
    ledger, lane, share = redis_of(stage), await stage.lane(), Share("bob", 10, most=3)
    key = Keys(ledger._keys.prefix).lane(lane)
    await ledger.runner.plain(key, ("HSET", key, "n:bob", 3, "b:bob", 30))
    assert await ledger.room("bob") == Room()
    assert [a.word for a in await ledger.append(lane, [replace(await stage.entry(lane), share=share)])] == ["appended"]
    assert await ledger.room("bob") == Room(1, 10)


@redis_promise
async def bucket_that_is_full_again_is_forgotten(stage: Stage) -> None:
    ledger = redis_of(stage)
    key = ledger._keys.bucket("bob")
    await ledger.draw("bob", 1.0, 5, 5)
    [ttl] = await ledger.runner.plain(key, ("PTTL", key))
    assert 5_000 < ttl <= 6_000


@redis_promise
async def counts_that_reach_zero_leave_the_lane(stage: Stage) -> None:
    ledger, lane = redis_of(stage), await stage.lane()
    other = replace(await stage.entry(lane), share=Share("alice", 1))
    entry = replace(await stage.entry(lane), share=Share("bob", 10))
    await ledger.append(lane, [entry, other])
    await ledger.cancel(entry.intent.id)
    key = ledger._keys.lane(lane)
    [left] = await ledger.runner.plain(key, ("HMGET", key, "n:bob", "b:bob", "n:alice", "b:alice"))
    assert left == [None, None, b"1", b"1"]


@redis_promise
async def lane_that_was_admitted_and_never_came_to_be_is_let_go(stage: Stage) -> None:
    ledger = redis_of(stage)
    names = [f"evm:1:0x{n:040x}" for n in range(3)]
    assert await ledger.admit_lane("bob", names[0], 1)
    assert not await ledger.admit_lane("bob", names[1], 1), "it may still be on its way"
    made = ledger._keys.made("bob")
    await ledger.runner.plain(made, ("ZADD", made, 1, names[0]))
    assert await ledger.admit_lane("bob", names[1], 1)
    await keyless(stage, names[1])
    await ledger.runner.plain(made, ("ZADD", made, 1, names[1]))
    assert not await ledger.admit_lane("bob", names[2], 1)
    await ledger.forget_lane(names[1])
    assert await ledger.admit_lane("bob", names[2], 1)


@redis_promise
async def route_to_a_deleted_lane_goes_with_the_next_call(stage: Stage) -> None:
    """Whoever deleted the lane died before it told producers."""
    ledger, lane = redis_of(stage), await keyless(stage)
    key = ledger._keys.lane(lane)
    await ledger.runner.plain(key, ("DEL", key, ledger._keys.queue(lane)))
    assert [route.lane for route in await ledger.routes()] == [lane]
    await ledger.forget_lane(lane)
    assert await ledger.routes() == []


# -- a full server


@asynccontextmanager
async def full(ledger: RedisLedger) -> AsyncIterator[None]:
    """A real limit far below what is used: every write that needs memory is refused."""
    await ledger.runner.plain("x", ("CONFIG", "SET", "maxmemory", "1"))
    try:
        yield
    finally:
        await ledger.runner.plain("x", ("CONFIG", "SET", "maxmemory", "0"))


def under_full_memory(step: Callable[[Stage], Awaitable[Callable[[], Awaitable[object]]]]) -> None:
    """`step` prepares and answers what must still succeed when memory is full."""

    async def check(stage: Stage) -> None:
        act = await step(stage)
        async with full(redis_of(stage)):
            await act()

    check.__name__ = f"full_server_lets_{step.__name__}"
    redis_promise(check)


@under_full_memory
async def people_log_in_and_out(stage: Stage) -> Callable[[], Awaitable[object]]:
    ledger = stage.ledger
    await ledger.offer_code(ISSUER, CODE, LONG_MS)  # memory that the first field of a hash needs

    async def act() -> None:
        await ledger.offer_code(ISSUER, digest("another"))
        assert await ledger.open_session(ISSUER, CODE, digest("s")) is not None
        assert await ledger.end_session(ISSUER, digest("s"))

    return act


@under_full_memory
async def charges_be_corrected_and_taken_back(stage: Stage) -> Callable[[], Awaitable[object]]:
    await charge(stage, "a", 10)
    await charge(stage, "b", 10)
    await charge(stage, "c", 10)
    await correct(stage, "c", 1)  # memory that the first field of a hash needs

    async def act() -> None:
        assert await correct(stage, "a", 5) == 1
        assert await stage.ledger.uncharge("b", {TOKEN.name: 1}) == 1
        assert await correct(stage, "a", 5) == 0

    return act


@under_full_memory
async def operators_act(stage: Stage) -> Callable[[], Awaitable[object]]:
    return lambda: stage.ledger.note(AuditEntry("alice", "default", "pause"))


@under_full_memory
async def an_archive_acknowledge(stage: Stage) -> Callable[[], Awaitable[object]]:
    """It frees memory. The records that go without it need a little: their tombstones and names."""
    fence = await stage.own(await stage.lane())
    await stage.ledger.archive(fence.lane, 1)
    one, *_ = await stage.settled(fence, 3)
    await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 1))

    async def act() -> None:
        assert await stage.ledger.acknowledge(fence.lane, [(one.id, one.life)]) == 1
        assert await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9)) == 1

    return act


@under_full_memory
async def lease(stage: Stage) -> Callable[[], Awaitable[object]]:
    lane, used = await stage.lane(), await stage.lane("near:net:b:2")
    mine = await stage.ledger.lease(used, "w1", "mine", LONG_MS)

    async def act() -> None:
        assert (await stage.ledger.lease(lane, "w1", "token", LONG_MS)).word == "leased"
        assert (await stage.ledger.lease(used, "w1", "mine", LONG_MS)).fence == mine.fence

    return act


@under_full_memory
async def renew_and_release(stage: Stage) -> Callable[[], Awaitable[object]]:
    fence = await stage.own(await stage.lane())

    async def act() -> None:
        assert (await stage.ledger.renew([fence], LONG_MS))[0].word == "renewed"
        assert await stage.ledger.release(fence)

    return act


@under_full_memory
async def a_lane_be_baselined_and_vouched_for(stage: Stage) -> Callable[[], Awaitable[object]]:
    lease = await stage.ledger.lease(await stage.lane(), "w1", "t", LONG_MS)
    assert lease.fence is not None
    assert lease.lane is not None
    fence, found = lease.fence, lease.lane.history_id

    async def act() -> None:
        assert await stage.ledger.baseline(fence, BASE) == BASE
        assert await stage.ledger.vouch(fence, found, "elsewhere")

    return act


@under_full_memory
async def write_ahead(stage: Stage) -> Callable[[], Awaitable[object]]:
    fence = await stage.own(await stage.lane())
    batch = await taken(stage, fence, 2)

    async def act() -> None:
        assert await stage.ledger.take(fence, 9)
        for _ in range(2):  # the answer to the first may be lost
            assert await stage.ledger.record_attempts(fence, BASE, batch) == BASE + 2
        again = resign(stage, batch[0], BASE + 2, [batch[0].attempt.name])
        assert await stage.ledger.record_attempts(fence, BASE + 2, [again]) == BASE + 3
        noop = other(stage, batch[1], BASE + 1, Purpose.NOOP)
        assert await stage.ledger.record_attempts(fence, BASE + 3, [noop]) == BASE + 3

    return act


@under_full_memory
async def settle_and_retire(stage: Stage) -> Callable[[], Awaitable[object]]:
    fence = await stage.own(await stage.lane())
    batch = await stage.inflight(fence, 2)

    async def act() -> None:
        assert [a.word for a in await stage.ledger.settle(fence, [stage.done(w) for w in batch], BASE)] == [
            "settled"
        ] * 2
        records = await stage.ledger.unretired(fence.lane, 9)
        assert await stage.ledger.retire(records) == 2
        assert await stage.ledger.retire(records) == 0
        assert (await stage.read(batch[0])).status is Status.DONE

    return act


@under_full_memory
async def an_end_go_home_at_once(stage: Stage) -> Callable[[], Awaitable[object]]:
    """Of an intent that was accepted in one step: its home has no open claim, whose removal needs no memory."""
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    entry = Entry(stage.intent(), "life", await ledger.now_ms())
    await ledger.accept(fence.lane, [entry])
    [first] = await ledger.take(fence, 9)
    write = stage.write(entry, BASE, position=first.position)
    await ledger.record_attempts(fence, BASE, [write])
    ended = await end_of(stage, write)

    async def act() -> None:
        answer = await stage.settle_one(fence, ended)
        assert (answer.word, answer.retired) == ("settled", redis_of(stage)._link.one_server)
        assert (await stage.read(write)).status is Status.DONE

    return act


@under_full_memory
async def cancel_of_a_queued(stage: Stage) -> Callable[[], Awaitable[object]]:
    [entry] = await stage.queued(await stage.lane())

    async def act() -> None:
        assert (await stage.ledger.cancel(entry.intent.id)).status is Status.CANCELLED

    return act


@under_full_memory
async def cancel_of_an_inflight(stage: Stage) -> Callable[[], Awaitable[object]]:
    [write] = await stage.inflight(await stage.own(await stage.lane()))

    async def act() -> None:
        assert (await stage.ledger.cancel(write.id)).cancel_requested

    return act


@under_full_memory
async def hold(stage: Stage) -> Callable[[], Awaitable[object]]:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)

    async def act() -> None:
        assert await stage.ledger.hold(fence, write.id, write.life, "why", {})

    return act


@under_full_memory
async def an_operator_be_heard(stage: Stage) -> Callable[[], Awaitable[object]]:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)

    async def act() -> None:
        assert (await stage.ledger.resolve(write.id, {"verb": "track"})).directive
        assert await stage.ledger.answer(fence, write.id, write.life)

    return act


@under_full_memory
async def a_monitor_be_heard(stage: Stage) -> Callable[[], Awaitable[object]]:
    lane = await stage.lane()

    async def act() -> None:
        assert await stage.ledger.check(lane, "m:1", [Alert.STUCK])

    return act


@under_full_memory
async def a_gap_be_filled(stage: Stage) -> Callable[[], Awaitable[object]]:
    fence = await stage.own(await stage.lane())

    async def act() -> None:
        assert await stage.ledger.fill(fence, [noop(BASE - 1)])

    return act


@under_full_memory
async def a_lane_be_stopped(stage: Stage) -> Callable[[], Awaitable[object]]:
    lane = await stage.lane()

    async def act() -> None:
        await stage.ledger.set_lane(lane, LaneState.PAUSED, "funds")

    return act


@under_full_memory
async def producers_know_of_it(stage: Stage) -> Callable[[], Awaitable[object]]:
    """The registry has to follow the lane."""
    lane = await stage.lane()

    async def act() -> None:
        await stage.ledger.set_lane(lane, LaneState.DRAINING)
        assert [r.state for r in await stage.ledger.routes()] == [LaneState.DRAINING]

    return act


@under_full_memory
async def workers_come_up(stage: Stage) -> Callable[[], Awaitable[object]]:
    lane = await stage.lane()

    async def act() -> None:
        redis_of(stage)._schema = 0  # as a new process
        await stage.lane(lane)

    return act


@under_full_memory
async def workers_stay_alive(stage: Stage) -> Callable[[], Awaitable[object]]:
    async def act() -> None:
        await stage.ledger.heartbeat(Member("w1", frozenset()), LONG_MS)
        assert len(await stage.ledger.members()) == 1

    return act


@redis_promise
async def full_server_forgets_final_bytes_first(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    await stage.ledger.keep(fence, [Landed(1, "h1", b"raw")], LONG_MS, 1_000)
    assert len(await stage.ledger.kept(lane)) == 1
    ledger = stage.again()
    async with full(redis_of(stage)):
        await ledger.keep(fence, [Landed(2, "h2", b"raw")], LONG_MS, 1_000)
        assert await ledger.kept(lane) == []


@redis_promise
async def full_server_pushes_producers_back_before_the_claim(stage: Stage) -> None:
    lane = await stage.lane()
    entry = await stage.entry(lane)
    ledger = stage.again()
    async with full(redis_of(stage)):
        with pytest.raises(MemoryFull, match="nothing was accepted"):
            await stage.ledger.append(lane, [entry])
        fresh = Stage(ledger, stage.expire, stage.again)
        with pytest.raises(MemoryFull, match="of 1 bytes"):
            await fresh.claim(stage.intent("never"), lane)
        at_once = Entry(stage.intent("never"), "life", await ledger.now_ms())
        with pytest.raises(MemoryFull, match="of 1 bytes"):
            await ledger.accept(lane, [at_once])
        with pytest.raises(MemoryFull, match="nothing was accepted"):  # it was not full when this client looked
            await stage.ledger.accept(lane, [at_once])
    assert await stage.ledger.read(IntentId(POOL, "never")) is None
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.depth, view.last_id) == (0, "0-0")
    assert await stage.ledger.events(lane) == []


# -- the registry


@redis_promise
async def late_news_never_overwrites_newer_news_of_a_lane(stage: Stage) -> None:
    """Two changes reach the registry in the wrong order."""
    lane = await stage.lane()
    ledger = redis_of(stage)
    await ledger.set_lane(lane, LaneState.PAUSED)
    keys = Keys(ledger._keys.prefix)
    snapshot = await ledger.runner.run("lane", ledger._lane_keys(lane))
    await ledger.set_lane(lane, LaneState.ACTIVE)
    late = (lane, codec.revision(snapshot), codec.dumps([POOL, 1, "paused"]))
    assert await ledger.runner.run("publish", keys.of_registry, late) == 0
    assert await ledger.routes() == [Route(lane, POOL, 1, LaneState.ACTIVE)]


@redis_promise
async def readers_of_the_registry_read_what_changed_alone(stage: Stage) -> None:
    ledger, reader = redis_of(stage), stage.again()
    lane, other = await stage.lane(), await keyless(stage)
    assert isinstance(reader, RedisLedger)
    whole = await reader.routes()
    assert await reader.routes() is whole
    with patch.object(reader, "_read_routes", side_effect=AssertionError("read all of it")):
        await ledger.set_lane(lane, LaneState.PAUSED)
        assert {r.lane: r.state for r in await reader.routes()}[lane] is LaneState.PAUSED
        await ledger.forget_lane(other)
        assert [r.lane for r in await reader.routes()] == [lane]
        with pytest.raises(NotFound):
            await ledger.forget_lane(other)
        third = await stage.lane("near:net:c:3", weight=7)
        assert [(r.lane, r.weight) for r in await reader.routes()] == [(lane, 1), (third, 7)]
        key = ledger._keys.of_registry[1]
        [said] = await ledger.runner.plain(key, ("GET", key))
        assert int(said) == 5, "two lanes, a pause, a deletion and a lane"


@redis_promise
async def lane_registered_again_is_no_change_of_the_registry(stage: Stage) -> None:
    """Every worker does so when it starts."""
    lane, reader = await stage.lane(), stage.again()
    before = await reader.routes()
    await stage.ledger.register(LaneSpec(lane, POOL))
    assert await reader.routes() is before


@redis_promise
async def reader_that_cannot_tell_what_changed_reads_the_whole_registry(stage: Stage) -> None:
    """Too many changes, a registry of another history, or release 0.1.0, which tells nobody."""
    ledger, reader = redis_of(stage), stage.again()
    lane = await stage.lane()
    await reader.routes()
    registry, revision, changes, _ = ledger._keys.of_registry
    await ledger.set_lane(lane, LaneState.PAUSED)
    await ledger.runner.plain(registry, ("XTRIM", changes, "MAXLEN", 0))
    assert [r.state for r in await reader.routes()] == [LaneState.PAUSED]
    await ledger.runner.plain(registry, ("DEL", changes), ("SET", revision, 1))
    await ledger.runner.plain(registry, ("HSET", registry, lane, f'9 ["{POOL}",1,"draining"]'))
    assert [r.state for r in await reader.routes()] == [LaneState.DRAINING]
    await ledger.runner.plain(registry, ("HSET", registry, "near:net:old:1", f'1 ["{POOL}",1,"active"]'))
    assert len(await reader.routes()) == 2
    await ledger.runner.plain(registry, ("HSET", registry, lane, f'10 ["{POOL}",1,"closed"]'))
    assert {r.lane: r.state for r in await reader.routes(fresh=True)}[lane] is LaneState.CLOSED


@redis_promise
async def listing_lanes_heals_a_registry_nobody_told(stage: Stage) -> None:
    """Whoever changed the lane died before it published."""
    lane = await stage.lane()
    ledger = redis_of(stage)
    key = ledger._keys.lane(lane)
    await ledger.runner.plain(key, ("HSET", key, "state", "draining"), ("HINCRBY", key, "rev", 1))
    assert [r.state for r in await ledger.routes()] == [LaneState.ACTIVE]
    assert [v.state for v in await ledger.lanes()] == [LaneState.DRAINING]
    assert [r.state for r in await ledger.routes()] == [LaneState.DRAINING]


# -- what the Python side never sends, and a raced or mistaken call would


@redis_promise
async def cancel_script_finds_only_the_life_it_was_read_with(stage: Stage) -> None:
    """Between the read and the script the intent may have ended, been retired, or begun another life."""
    ledger = redis_of(stage)
    fence = await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    keys = [*ledger._lane_keys(fence.lane, events=True), ledger._keys.record(fence.lane, write.id)]

    async def cancel(life: str) -> list[bytes]:
        found: list[bytes] = await ledger.runner.run("cancel", keys, (str(write.id), life, "{}", "wake", "final"))
        return found

    assert await cancel("another") == [b"gone"]
    assert await cancel(write.life) == [b"final", b"done"]
    await ledger.retire(await ledger.unretired(fence.lane, 9))
    assert await cancel(write.life) == [b"gone"]
    [stored] = await ledger.runner.plain(keys[5], ("HGETALL", keys[5]))
    assert codec.pairs(stored) == {b"s": b"retired", b"l": write.life.encode()}
    await ledger.runner.plain(keys[5], ("DEL", keys[5]))
    assert await cancel(write.life) == [b"gone"]
    [exists] = await ledger.runner.plain(keys[5], ("EXISTS", keys[5]))
    assert exists == 0


@redis_promise
async def forget_deletes_only_the_claim_that_was_read(stage: Stage) -> None:
    """A producer renews, another life begins, or the answer arrives between the sweeper's read and its deletion."""
    ledger = redis_of(stage)
    entry = await stage.entry("near:net:a:1")
    keys, id = ledger._home_keys(entry.intent.id), str(entry.intent.id)
    assert await ledger.runner.run("forget", keys, (id, entry.life, entry.born - 1)) == [b"kept"]
    assert await ledger.runner.run("forget", keys, (id, "another", entry.born)) == [b"kept"]
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.settled(fence)
    [record] = await ledger.unretired(lane, 9)
    await ledger.retire([record])
    keys, id = ledger._home_keys(write.id), str(write.id)
    assert await ledger.runner.run("forget", keys, (id, write.life, record.created_at)) == [b"kept"]
    assert (await stage.claim(entry.intent, "near:net:b:2")).word == "renewed"
    assert (await stage.read(write)).status is Status.DONE


@redis_promise
async def homes_and_tombstones_expire(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.settled(fence)
    await stage.ledger.retire(await stage.ledger.unretired(lane, 9))
    await expire_in_time(stage, lane, write.id, tombstone=True)


async def expire_in_time(stage: Stage, lane: str, id: IntentId, *, tombstone: bool) -> None:
    ledger = redis_of(stage)
    home, record = ledger._keys.home(id), ledger._keys.record(lane, id)
    [left] = await ledger.runner.plain(home, ("PTTL", home))
    assert 6.9 * 24 * 3600_000 < left <= 7 * 24 * 3600_000
    [left] = await ledger.runner.plain(record, ("PTTL", record))
    if tombstone:
        assert 2.5 * APPEND_WITHIN_MS < left <= 3 * APPEND_WITHIN_MS
    else:
        assert left == -2, "nothing is left in the lane"


@redis_promise
async def homes_and_tombstones_of_an_end_at_once_expire(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    if (await stage.settle_one(fence, await end_of(stage, write))).retired:
        view = await stage.ledger.lane(fence.lane)
        assert view is not None
        await expire_in_time(stage, fence.lane, write.id, tombstone=view.schema < 2)


@redis_promise
async def end_at_once_leaves_no_open_claim(stage: Stage) -> None:
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    if (await stage.settle_one(fence, await end_of(stage, write))).retired:
        claims = ledger._keys.open_claims(write.id.home)
        assert await ledger.runner.plain(claims, ("ZSCORE", claims, write.id.text)) == [None]


@redis_promise
async def record_of_a_second_life_does_not_expire(stage: Stage) -> None:
    lane = await stage.lane()
    [entry] = await stage.queued(lane)
    await stage.ledger.cancel(entry.intent.id)
    await stage.ledger.retire(await stage.ledger.unretired(lane, 9))
    await stage.expire("home", entry.intent.id)
    reborn = await stage.entry(lane, entry.intent)
    await stage.ledger.append(lane, [reborn])
    ledger = redis_of(stage)
    key = ledger._keys.record(lane, entry.intent.id)
    assert await ledger.runner.plain(key, ("PTTL", key)) == [-1]


@redis_promise
async def settle_keeps_no_proof_of_what_was_never_recorded(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.inflight(fence)
    await stage.settle_one(fence, replace(stage.done(write), deaths={"1:ghost": {}}))
    ledger = redis_of(stage)
    key = ledger._keys.record(lane, write.id)
    [fields] = await ledger.runner.plain(key, ("HKEYS", key))
    assert b"d:1:ghost" not in fields


@redis_promise
async def entry_deleted_by_hand_does_not_stop_the_lane(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [_, second] = await stage.queued(lane, 2)
    taken_first = (await stage.ledger.take(fence, 9))[0]
    ledger = redis_of(stage)
    queue = ledger._keys.queue(lane)
    await ledger.runner.plain(queue, ("XDEL", queue, taken_first.position))
    [left] = await stage.ledger.take(fence, 9)
    assert left.intent.id == second.intent.id
    write = stage.write(second, BASE, position=left.position)
    assert await stage.ledger.record_attempts(fence, BASE, [write]) == BASE + 1


@redis_promise
async def entry_deleted_by_hand_does_not_let_others_overtake(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [first, second] = await stage.queued(lane, 2)
    gone = (await stage.ledger.take(fence, 9))[0]
    await stage.queued(lane)
    ledger = redis_of(stage)
    queue = ledger._keys.queue(lane)
    await ledger.runner.plain(queue, ("XDEL", queue, gone.position))
    assert gone.intent.id == first.intent.id
    assert [t.intent.id for t in await stage.ledger.take(fence, 1)] == [second.intent.id]


@redis_promise
async def dead_members_are_forgotten_at_once(stage: Stage) -> None:
    ledger = redis_of(stage)
    await ledger.heartbeat(Member("w1", frozenset()), -1)
    assert await ledger.members() == []
    assert await ledger.runner.plain(ledger._keys.members, ("EXISTS", ledger._keys.members)) == [0]


def written_by_0_1_0(keys: Keys, name: str, lanes: list[str]) -> list[Command]:
    """The writes of its heartbeat."""
    members, deadlines, _ = keys.of_members
    body = codec.dumps({"name": name, "lanes": lanes})
    return [("HSET", members, name, body), ("ZADD", deadlines, 10**15, name)]


@redis_promise
async def worker_that_was_forgotten_tells_its_lanes_again(stage: Stage) -> None:
    ledger, member = redis_of(stage), Member("w1", frozenset({"near:net:a:1"}))
    members, deadlines, versions = ledger._keys.of_members
    await ledger.heartbeat(member, LONG_MS)
    for key in (members, versions):  # release 0.1.0 forgets the one alone
        await ledger.runner.plain(key, ("DEL", key), ("DEL", deadlines))
        await ledger.heartbeat(member, LONG_MS)
        assert await ledger.members() == [member]


@redis_promise
async def digests_of_members_go_with_them(stage: Stage) -> None:
    ledger = redis_of(stage)
    members, deadlines, versions = ledger._keys.of_members
    gone = [("HDEL", members, "w1"), ("ZREM", deadlines, "w1")]  # as release 0.1.0 forgets a member
    for ttl_ms, commands in ((-1, []), (LONG_MS, gone)):
        await ledger.heartbeat(Member("w1", frozenset({"near:net:a:1"})), ttl_ms)
        await ledger.runner.plain(members, ("PING",), *commands)
        assert await ledger.members() == []
        assert await ledger.runner.plain(versions, ("EXISTS", versions)) == [0]


@redis_promise
async def worker_of_release_0_1_0_is_read_as_it_says(stage: Stage) -> None:
    ledger = redis_of(stage)
    members, _, _ = ledger._keys.of_members
    a, b = "near:net:a:1", "near:net:b:22"
    await ledger.heartbeat(Member("new", frozenset({a})), LONG_MS)
    await ledger.heartbeat(Member("back", frozenset({a})), LONG_MS)
    await ledger.members()
    old = [*written_by_0_1_0(ledger._keys, "old", [b]), *written_by_0_1_0(ledger._keys, "back", [a, b])]
    for lanes in ([b], [a, b]):
        await ledger.runner.plain(members, *old, *written_by_0_1_0(ledger._keys, "old", lanes))
        told = {m.name: m.lanes for m in await ledger.members()}
        assert told == {"new": {a}, "back": {a, b}, "old": set(lanes)}


@redis_promise
async def lanes_of_a_worker_are_told_and_read_once(stage: Stage) -> None:
    """A heartbeat and a look at the members name no lane while nothing changes, and one worker is read for all that
    serve the same."""
    ledger, reader = redis_of(stage), stage.again()
    assert isinstance(reader, RedisLedger)
    lanes = frozenset(f"near:net:{n}:1" for n in range(50))
    members = [Member(f"w{n}", lanes) for n in range(3)]
    for member in members:
        await ledger.heartbeat(member, LONG_MS)
    with patch.object(reader.runner, "plain", wraps=reader.runner.plain) as asked:
        first = await reader.members()
        assert [len(call.args[1][2:]) for call in asked.await_args_list] == [1]
    with patch.object(ledger.runner, "run", wraps=ledger.runner.run) as told:
        await ledger.heartbeat(Member("w2", frozenset(lanes)), LONG_MS)
        assert [call.args[2][3:] for call in told.await_args_list] == [("",)]
    with patch.object(reader.runner, "plain", side_effect=AssertionError("read names of lanes")):
        again = await reader.members()
    assert first == again == members
    assert {id(m.lanes) for m in again} == {id(first[0].lanes)}
    await ledger.heartbeat(Member("w2", lanes | {"near:net:x:1"}), LONG_MS)
    assert (await reader.members())[2].lanes == lanes | {"near:net:x:1"}


@redis_promise
async def settle_follows_the_table_of_transitions(stage: Stage) -> None:
    """A record that says queued, whatever else it says, does not become done."""
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.inflight(fence)
    ledger = redis_of(stage)
    key = ledger._keys.record(lane, write.id)
    await ledger.runner.plain(key, ("HSET", key, "s", "queued"))
    assert (await stage.settle_one(fence, stage.done(write))).word == "refused"


@redis_promise
async def resolve_script_finds_only_the_life_it_was_read_with(stage: Stage) -> None:
    ledger = redis_of(stage)
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    keys = [ledger._keys.lane(fence.lane), ledger._keys.record(fence.lane, write.id)]
    assert await ledger.runner.run("resolve", keys, ("another", "{}", "wake")) == [b"gone"]
    assert (await stage.read(write)).directive is None


# -- seals


@under_full_memory
async def a_seal_be_dealt_with(stage: Stage) -> Callable[[], Awaitable[object]]:
    fence = await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    await sealed_entry(stage, fence.lane)
    [next_one] = await stage.ledger.take(fence, 9)
    record = await stage.read(Entry(bad.intent, bad.life, 0))

    async def act() -> None:
        assert await stage.ledger.set_aside(fence, next_one, BAD_SEAL, WHY)
        assert await stage.ledger.reseal(record, "1.name.new")

    return act


@redis_promise
async def replay_of_a_reseal_writes(stage: Stage) -> None:
    """As above: an operator who was told that it is queued must not lose it to a fail-over."""
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    bad = await aside(stage, fence)
    record = await stage.read(Entry(bad.intent, bad.life, 0))
    assert await ledger.reseal(record, "1.name.new")
    with changes(ledger) as changed:
        assert not await ledger.reseal(record, "1.name.new")
    assert sum(changed) > 0


@redis_promise
async def entry_deleted_by_hand_is_not_set_aside(stage: Stage) -> None:
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    entry = await sealed_entry(stage, fence.lane)
    [taken] = await ledger.take(fence, 9)
    queue = ledger._keys.queue(fence.lane)
    await ledger.runner.plain(queue, ("XDEL", queue, taken.position))
    assert not await ledger.set_aside(fence, taken, BAD_SEAL, WHY)
    assert (await stage.read(entry)).status is Status.QUEUED


@redis_promise
async def copy_of_an_entry_is_taken_out_alone(stage: Stage) -> None:
    """Whoever can write to Redis can put a changed copy of an entry behind it: the record is not the copy's."""
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    entry = await sealed_entry(stage, fence.lane)
    queue = ledger._keys.queue(fence.lane)
    [[[_, fields]]] = await ledger.runner.plain(queue, ("XRANGE", queue, "-", "+"))
    await ledger.runner.plain(queue, ("XADD", queue, "*", *fields))
    first, copy = await ledger.take(fence, 9)
    assert not await ledger.set_aside(fence, copy, BAD_SEAL, WHY)
    assert (await stage.read(entry)).status is Status.QUEUED
    assert await ledger.take(fence, 9) == [first]


@redis_promise
async def reseal_script_finds_only_the_life_it_was_read_with(stage: Stage) -> None:
    ledger, fence = redis_of(stage), await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    await ledger.retire(await ledger.unretired(fence.lane, 9))
    keys = [*ledger._lane_keys(fence.lane, events=True)[:4], ledger._keys.record(fence.lane, write.id)]
    assert await ledger.runner.run("reseal", keys, (str(write.id), write.life, "", "{", "wake")) == [b"gone"]


# -- keyless lanes


@redis_promise
async def alias_of_a_known_key_is_not_looked_at_in_every_sweep(stage: Stage) -> None:
    """Each delegate leaves one for as long as its record is kept."""
    ledger, own, target = redis_of(stage), stage.intent("own"), stage.intent("delegate:1")
    await ledger.alias(own.id, own.fingerprint, target.id)
    await stage.claim(target, "near:net:a:1")
    looked = []
    sweep_one = ledger._sweep_one

    async def counting(id: IntentId, again_ms: int) -> bool:
        looked.append(id)
        return await sweep_one(id, again_ms)

    with patch.object(ledger, "_sweep_one", counting):

        async def swept() -> bool:
            assert await ledger.sweep(own.id.home, 2_000) == 0
            return own.id in looked

        await until(swept, 20)
        assert await ledger.sweep(own.id.home, 2_000) == 0
        assert looked.count(own.id) == 1
        await until(lambda: ledger.sweep(target.id.home, 2_000), 20)

        async def gone() -> bool:
            return bool(await ledger.sweep(own.id.home, 2_000))

        await until(gone, 20, what="the alias is swept after its target")


@redis_promise
async def replay_of_every_reservation_writes(stage: Stage) -> None:
    """As above: a number that was told and is not on the replica goes to two callers after a fail-over."""
    ledger, lane = redis_of(stage), await keyless(stage)
    for token in ("t1", "t2", "t3"):
        await ledger.reserve(lane, token, LONG_MS, None, 7)
    await ledger.recycle(lane, "t2")
    await send(stage, lane, "t3", 9, "0xa")
    await ledger.turn(lane, "t4", LONG_MS)
    calls: list[Callable[[], Awaitable[object]]] = [
        *(partial(ledger.reserve, lane, token, LONG_MS) for token in ("t1", "t2", "t3")),
        *(partial(ledger.turn, lane, token, LONG_MS) for token in ("t2", "t3", "t4", "t5", "t5")),
        *(partial(ledger.recycle, lane, token) for token in ("t2", "t3", "nobody")),
        partial(ledger.unlock, lane, "t1"),
    ]
    for call in calls:
        with changes(ledger) as changed:
            await call()
        assert sum(changed) > 0


@under_full_memory
async def numbers_be_taken_back(stage: Stage) -> Callable[[], Awaitable[object]]:
    lane = await keyless(stage)
    for token in ("t1", "t2"):
        await stage.ledger.reserve(lane, token, LONG_MS, None, 7)
    await stage.ledger.reserve(lane, "t3", 1, None, 7)
    fence = await owned(stage, lane)

    async def act() -> None:
        async def expired() -> bool:
            return await stage.ledger.expire(lane) > 0

        await until(expired, every=0.001)
        assert (await stage.ledger.recycle(lane, "t1")).word == "recycled"
        await stage.ledger.checked(lane)
        assert await stage.ledger.reclaim(fence, 0, [8]) == 0

    return act


@redis_promise
async def take_begins_behind_what_a_call_without_an_answer_wrote_ahead(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    entries = await stage.queued(fence.lane, 3)
    [first] = await stage.ledger.take(fence, 1)
    write = stage.write(entries[0], BASE, position=first.position)
    await stage.again().record_attempts(fence, BASE, [write])
    assert [t.intent.id for t in await stage.ledger.take(fence, 9)] == [e.intent.id for e in entries[1:]]
