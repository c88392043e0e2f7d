"""What one caller may use: a rate that all processes share, and room in the queues that always comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from txmanager.core.ledger import Appended, Entry, Settlement
from txmanager.core.models import Outcome, failure
from txmanager.core.quotas import Drawn, Room, Share
from txmanager.core.states import Status
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import BASE, POOL, Stage
from txmanager.testing.waiting import until


async def charged(stage: Stage, lane: str, shares: Sequence[Share | None]) -> tuple[list[Entry], list[Appended]]:
    entries = [replace(await stage.entry(lane), share=share) for share in shares]
    return entries, await stage.ledger.append(lane, entries)


async def append(stage: Stage, lane: str, *shares: Share | None) -> list[str]:
    return [answer.word for answer in (await charged(stage, lane, shares))[1]]


# -- rates


@promise
async def burst_is_granted_once_to_all_processes_together(stage: Stage) -> None:
    other = stage.again()
    assert await stage.ledger.draw("bob", 0.001, 5, 3) == Drawn(3)
    assert await other.draw("bob", 0.001, 5, 3) == Drawn(2)
    for ledger in (stage.ledger, other):
        refused = await ledger.draw("bob", 0.001, 5, 1)
        assert refused.granted == 0
        assert 900_000 < refused.wait_ms <= 1_000_000
    assert await stage.ledger.draw("alice", 0.001, 5, 9) == Drawn(5), "each name has a bucket of its own"


@promise
async def bucket_fills_with_time_and_never_above_its_burst(stage: Stage) -> None:
    assert await stage.ledger.draw("bob", 200.0, 2, 2) == Drawn(2)

    async def granted() -> bool:
        return (await stage.ledger.draw("bob", 200.0, 2, 1)).granted == 1

    await until(granted, every=0.002)
    at = await stage.ledger.now_ms()

    async def later() -> bool:
        return await stage.ledger.now_ms() > at + 2

    await until(later, every=0.002)
    full = await stage.ledger.draw("bob", 1e9, 2, 100)
    assert full.granted <= 2


# -- room


@promise
async def owner_over_its_count_or_its_bytes_gets_no_room_and_nothing_changes(stage: Stage) -> None:
    lane = await stage.lane()
    few, small = Share("bob", 10, most=2), Share("bob", 10, most_bytes=35)
    assert await append(stage, lane, few, few, few) == ["appended", "appended", "no_room"]
    assert await append(stage, lane, small, small) == ["appended", "no_room"]
    _, [refused] = await charged(stage, lane, [small])
    assert refused.room == Room(3, 30)
    assert await append(stage, lane, None, Share("alice", 10, 1, 10)) == ["appended", "appended"]
    assert await stage.ledger.room("bob") == Room(3, 30)
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert view.depth == 5


@promise
async def refused_for_want_of_room_and_tried_again_is_accepted_once(stage: Stage) -> None:
    lane = await stage.lane()
    one = Share("bob", 10, most=1)
    [first, second], _ = await charged(stage, lane, [one, one])
    assert (await stage.ledger.append(lane, [first]))[0].word == "exists", "a retry is answered, room or not"
    await stage.ledger.cancel(first.intent.id)
    assert [a.word for a in await stage.ledger.append(lane, [second])] == ["appended"]
    assert [a.word for a in await stage.ledger.append(lane, [second])] == ["exists"]
    assert await stage.ledger.room("bob") == Room(1, 10)


@promise
async def room_comes_back_at_every_end(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    bob, alice = Share("bob", 1_000), Share("alice", 7)
    entries, _ = await charged(stage, lane, [bob, alice, bob, bob])
    assert await stage.ledger.room("bob") == Room(3, 3_000)
    await stage.ledger.cancel(entries[3].intent.id)
    assert await stage.ledger.room("bob") == Room(2, 2_000)
    taken = await stage.ledger.take(fence, 3)
    early = Outcome(Status.FAILED, error=failure("expired", "too late", new_key_helps=True))
    ended = Settlement(taken[2].intent.id, taken[2].life, taken[2].position, early)
    for _ in range(2):  # a repeat gives nothing back
        await stage.ledger.settle(fence, [ended])
    assert await stage.ledger.room("bob") == Room(1, 1_000)
    writes = [stage.write(Entry(t.intent, t.life, 0), BASE + n, position=t.position) for n, t in enumerate(taken[:2])]
    await stage.ledger.record_attempts(fence, BASE, writes)
    assert await stage.ledger.room("bob") == Room(1, 1_000), "what is in flight still takes its room"
    await stage.ledger.settle(fence, [stage.done(write) for write in writes])
    assert await stage.ledger.room("bob") == Room()
    assert await stage.ledger.room("alice") == Room()


@promise
async def room_is_summed_over_the_lanes_of_the_pools(stage: Stage) -> None:
    for lane in (await stage.lane("near:net:a:1"), await stage.lane("near:net:a:2")):
        assert await append(stage, lane, Share("bob", 10)) == ["appended"]
    assert await stage.ledger.room("bob") == Room(2, 20)
    assert await stage.ledger.room("bob", {POOL}) == Room(2, 20)
    assert await stage.ledger.room("bob", {"other"}) == Room()
    assert await stage.ledger.room("bo") == Room()


@promise
async def what_was_set_aside_keeps_its_room(stage: Stage) -> None:
    """Its payload stays in the ledger until an operator decides."""
    lane = await stage.lane()
    fence = await stage.own(lane)
    share = Share("bob", 10, most=2)
    [entry], _ = await charged(stage, lane, [share])
    [taken] = await stage.ledger.take(fence, 1)
    await stage.ledger.set_aside(fence, taken, "bad", {})
    assert await stage.ledger.room("bob") == Room(1, 10)
    assert await append(stage, lane, share, share) == ["appended", "no_room"]
    await stage.ledger.cancel(entry.intent.id)
    assert await stage.ledger.room("bob") == Room(1, 10)
