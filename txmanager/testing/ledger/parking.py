"""Keyless lanes that nobody uses: out of the registry and of every worker, and back at their next number."""

from __future__ import annotations

import asyncio

import pytest

from txmanager.core.errors import Fenced, NotAllowed, NotFound
from txmanager.core.ledger import Lease, Renewed, Route
from txmanager.core.models import Fence, Lane, LaneSpec
from txmanager.core.states import LaneState
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.reservations import LANE, SEED, expired, keyless, owned, reserve, send, sent
from txmanager.testing.ledger.stage import LONG_MS, POOL, Stage
from txmanager.testing.ledger.watchers import noop
from txmanager.testing.waiting import until

HOUR_MS = 3_600_000
ROUTE = Route(LANE, POOL, 0, LaneState.ACTIVE)


async def view_of(stage: Stage, lane: str) -> Lane:
    view = await stage.ledger.lane(lane)
    assert view is not None
    return view


async def idle(stage: Stage, lane: str = LANE) -> Fence:
    """Owned, used once, and remembered by nothing but its counter."""
    fence = await owned(stage, await keyless(stage, lane))
    await reserve(stage, lane, "t0")
    await stage.ledger.recycle(lane, "t0")
    await stage.expire("deadlines", lane=lane)
    return fence


async def parked(stage: Stage, lane: str = LANE) -> Fence:
    fence = await idle(stage, lane)
    assert await stage.ledger.park(fence, 0) == 0
    return fence


@promise
async def idle_lane_is_parked_and_nobody_serves_it(stage: Stage) -> None:
    fence, signing = await idle(stage), await stage.lane()
    assert await stage.ledger.parked() == []
    before = await view_of(stage, LANE)
    assert await stage.ledger.park(fence, 0) == 0
    assert [route.lane for route in await stage.ledger.routes()] == [signing]
    assert [lane.id for lane in await stage.ledger.lanes()] == [signing]
    assert await stage.ledger.parked() == [ROUTE]
    after = await view_of(stage, LANE)
    assert (before.parked, after.parked, after.state) == (False, True, LaneState.ACTIVE)
    assert (after.owner, after.lease_ms, after.cursor) == ("", 0, before.cursor)
    assert await stage.ledger.lease(LANE, "w2", "other", LONG_MS) == Lease("unknown")
    [answer] = await stage.ledger.renew([fence], LONG_MS)
    assert answer == Renewed("fenced", owner="", epoch=fence.epoch)
    assert await stage.ledger.release(fence), "it was handed back in the same step"


@promise
async def parked_lane_is_still_known(stage: Stage) -> None:
    await parked(stage)
    book = await stage.ledger.book(LANE)
    assert (book.next_nonce, book.reuse, book.reserved) == (SEED + 1, (SEED,), ())
    assert await stage.ledger.expire(LANE) == 0
    assert (await stage.ledger.recycle(LANE, "t0")).word == "over"
    await stage.ledger.checked(LANE)
    await stage.ledger.archive(LANE, None)
    assert await stage.ledger.pending(LANE) == []
    assert await stage.ledger.park(await owned(stage, await keyless(stage)), HOUR_MS) > 0


@promise
async def parked_lane_hands_out_nothing_until_it_is_registered_again(stage: Stage) -> None:
    fence = await parked(stage)
    for ask in (stage.ledger.reserve, stage.ledger.turn):
        with pytest.raises(NotFound):
            await ask(LANE, "t1", LONG_MS, SEED, SEED)
    _, answer = await send(stage, LANE, "t1", SEED, "0xaa")
    assert answer.word == "closed"
    back = await stage.ledger.register(LaneSpec(LANE, POOL, weight=0, keyless=True))
    assert (back.parked, back.cursor, back.depth) == (False, SEED + 1, 0)
    assert (await stage.ledger.routes(), await stage.ledger.parked()) == ([ROUTE], [])
    assert [await reserve(stage, LANE, f"t{n}") for n in (1, 2)] == [SEED, SEED + 1], "where it stood"
    lease = await stage.ledger.lease(LANE, "w2", "later", LONG_MS)
    assert lease.fence is not None
    assert lease.fence.epoch > fence.epoch
    entry, answer = await send(stage, LANE, "t1", SEED, "0xbb")
    assert answer.word == "appended"
    assert [taken.intent for taken in await stage.ledger.take(lease.fence, 9)] == [entry.intent]


@promise
async def counter_of_a_lane_never_goes_down_however_often_it_is_parked(stage: Stage) -> None:
    for n in range(3):
        fence = await owned(stage, await keyless(stage))
        answer = await stage.ledger.turn(LANE, f"t{n}", LONG_MS, None if n else SEED + 5, SEED)
        assert (answer.nonce, answer.fence) == (SEED + 5 + n, n + 1)
        entry, answer_to = await send(stage, LANE, f"t{n}", SEED + 5 + n, f"0x{n}")
        assert answer_to.word == "appended"
        await stage.ledger.cancel(entry.intent.id)
        await stage.ledger.settle(fence, [], SEED + 5 + n)
        await stage.ledger.retire(await stage.ledger.unretired(LANE, 9))
        await expired(stage, LANE)
        assert await stage.ledger.park(fence, 0) == 0
    view = await view_of(stage, LANE)
    assert (view.cursor, view.landed, view.epoch) == (SEED + 8, SEED + 7, 3)


@promise
async def lane_that_was_used_a_while_ago_is_not_parked_yet(stage: Stage) -> None:
    fence = await idle(stage)
    left = await stage.ledger.park(fence, HOUR_MS)
    assert HOUR_MS - 60_000 < left <= HOUR_MS
    assert await stage.ledger.parked() == []
    assert (await stage.ledger.routes()) == [ROUTE]


@promise
async def last_number_tells_how_long_a_lane_is_idle(stage: Stage) -> None:
    fence = await owned(stage, await keyless(stage))
    registered = await stage.ledger.now_ms()

    async def later() -> bool:
        return await stage.ledger.now_ms() >= registered + 100

    await until(later)
    before = await stage.ledger.now_ms()
    await reserve(stage, LANE, "t0")
    await stage.ledger.recycle(LANE, "t0")
    await stage.expire("deadlines", lane=LANE)
    left = await stage.ledger.park(fence, HOUR_MS)
    assert left >= HOUR_MS - (await stage.ledger.now_ms() - before)


@promise
async def last_event_tells_how_long_a_lane_is_idle(stage: Stage) -> None:
    """Whoever follows events need not look for new ones in lanes that were parked just now."""
    fence = await owned(stage, await keyless(stage))
    entry, nonce = await sent(stage, LANE, "t0", "0xaa")
    accepted = await stage.ledger.now_ms()

    async def later() -> bool:
        return await stage.ledger.now_ms() >= accepted + 100

    await until(later)
    before = await stage.ledger.now_ms()
    await stage.ledger.cancel(entry.intent.id)
    await stage.ledger.settle(fence, [], nonce)
    await stage.ledger.retire(await stage.ledger.unretired(LANE, 9))
    await expired(stage, LANE)
    left = await stage.ledger.park(fence, HOUR_MS)
    assert left >= HOUR_MS - (await stage.ledger.now_ms() - before)


@promise
async def lane_with_a_number_or_a_record_that_matters_is_not_parked(stage: Stage) -> None:
    fence = await owned(stage, await keyless(stage))

    async def stays() -> bool:
        return await stage.ledger.park(fence, 0) > 0 and await stage.ledger.routes() == [ROUTE]

    await reserve(stage, LANE, "t0")
    assert await stays(), "a number is reserved"
    await stage.ledger.recycle(LANE, "t0")
    assert await stays(), "a late duplicate is told from a new token"
    await stage.ledger.turn(LANE, "l0", LONG_MS, None, SEED)
    await stage.ledger.turn(LANE, "l1", LONG_MS, None, SEED)
    assert await stays(), "somebody waits in line"
    for _ in range(3):
        await expired(stage, LANE)
    entry, nonce = await sent(stage, LANE, "t1", "0xaa")
    await stage.ledger.settle(fence, [], nonce)
    await expired(stage, LANE)
    assert await stays(), "an intent is queued"
    [taken] = await stage.ledger.take(fence, 1)
    assert await stage.ledger.set_aside(fence, taken, "odd", {})
    assert await stays(), "an intent is set aside"
    await stage.ledger.cancel(entry.intent.id)
    assert await stays(), "its end is not retired"
    await stage.ledger.retire(await stage.ledger.unretired(LANE, 9))
    assert await stage.ledger.park(fence, 0) == 0


@promise
async def lane_with_a_fill_or_a_backlog_is_not_parked(stage: Stage) -> None:
    fence = await idle(stage)
    await stage.ledger.fill(fence, [noop(SEED - 1)])
    assert await stage.ledger.park(fence, 7) == 7
    await stage.ledger.fill(fence, [], [noop(SEED - 1).name])
    await stage.ledger.archive(LANE, 0)
    entry, nonce = await sent(stage, LANE, "t1", "0xaa")
    await stage.ledger.cancel(entry.intent.id)
    assert await stage.ledger.retire(await stage.ledger.unretired(LANE, 9)) == 1
    await stage.ledger.settle(fence, [], nonce)
    await expired(stage, LANE)
    assert await stage.ledger.park(fence, 7) == 7
    await stage.ledger.acknowledge(LANE, [(entry.intent.id, entry.life)])
    assert await stage.ledger.park(fence, 0) == 0


@promise
async def lane_whose_sent_bytes_may_land_is_not_parked(stage: Stage) -> None:
    fence = await owned(stage, await keyless(stage))
    entry, nonce = await sent(stage, LANE, "t0", "0xaa")
    await stage.ledger.cancel(entry.intent.id)
    await stage.ledger.retire(await stage.ledger.unretired(LANE, 9))
    await expired(stage, LANE)
    assert await stage.ledger.park(fence, HOUR_MS) == HOUR_MS
    await stage.ledger.settle(fence, [], nonce)
    await expired(stage, LANE)
    assert await stage.ledger.park(fence, 0) == 0


@promise
async def lane_that_an_operator_stopped_or_that_signs_is_not_parked(stage: Stage) -> None:
    fence = await idle(stage)
    for state in (LaneState.PAUSED, LaneState.QUARANTINED, LaneState.DRAINING):
        await stage.ledger.set_lane(LANE, state)
        assert await stage.ledger.park(fence, 7) == 7
    signing = await stage.own(await stage.lane())
    assert await stage.ledger.park(signing, 7) == 7
    assert await stage.ledger.parked() == []


@promise
async def parking_again_answers_the_same_and_a_stale_owner_parks_nothing(stage: Stage) -> None:
    old = await idle(stage)
    fence = await stage.take_over(LANE, old)
    await reserve(stage, LANE, "t1")
    assert await stage.ledger.park(fence, 0) > 0, "it is in use"
    await stage.ledger.recycle(LANE, "t1")
    await expired(stage, LANE)
    with pytest.raises(Fenced):
        await stage.ledger.park(old, 0)
    assert (await stage.ledger.routes()) == [ROUTE]
    assert [await stage.ledger.park(fence, 0) for _ in range(2)] == [0, 0]
    await keyless(stage)
    with pytest.raises(Fenced):
        await stage.ledger.park(fence, 0)
    again = await owned(stage, LANE)
    assert await stage.ledger.release(again)
    with pytest.raises(Fenced):
        await stage.ledger.park(fence, 0)
    assert (await stage.ledger.routes(), await stage.ledger.parked()) == ([ROUTE], [])


@promise
async def reservation_that_meets_a_parking_gets_a_number_of_a_lane_that_is_listed(stage: Stage) -> None:
    fence, spec = await idle(stage), LaneSpec(LANE, POOL, weight=0, keyless=True)

    async def number(token: str) -> int:
        while True:
            try:
                answer = await stage.ledger.reserve(LANE, token, LONG_MS, None, SEED)
            except NotFound:
                await stage.ledger.register(spec)
                continue
            assert answer.nonce is not None
            return answer.nonce

    async def park() -> int:
        try:
            return await stage.ledger.park(fence, 0)
        except Fenced:
            return -1

    numbers, _ = await asyncio.gather(asyncio.gather(*(number(f"u{n}") for n in range(6))), park())
    assert sorted(numbers) == list(range(SEED, SEED + 6))
    assert (await stage.ledger.routes(), await stage.ledger.parked()) == ([ROUTE], [])


@promise
async def operators_word_brings_a_parked_lane_back(stage: Stage) -> None:
    await parked(stage)
    with pytest.raises(NotAllowed):
        await stage.ledger.set_lane(LANE, LaneState.CLOSED)
    assert await stage.ledger.parked() == [ROUTE]
    view = await stage.ledger.set_lane(LANE, LaneState.PAUSED, "look")
    assert (view.parked, view.state, view.cursor) == (False, LaneState.PAUSED, SEED + 1)
    assert [route.state for route in await stage.ledger.routes()] == [LaneState.PAUSED]
    assert await stage.ledger.parked() == []
    await stage.ledger.set_lane(LANE, LaneState.ACTIVE)
    fence = await owned(stage, LANE)
    await sent(stage, LANE, "t1", "0xaa")
    assert len(await stage.ledger.take(fence, 9)) == 1


@promise
async def parked_address_stays_of_its_sort_and_can_be_deleted(stage: Stage) -> None:
    await parked(stage)
    with pytest.raises(NotAllowed, match="cannot be both"):
        await stage.ledger.register(LaneSpec(LANE, POOL))
    assert await stage.ledger.parked() == [ROUTE]
    await stage.ledger.forget_lane(LANE)
    assert (await stage.ledger.parked(), await stage.ledger.lane(LANE)) == ([], None)
    with pytest.raises(NotFound):
        await stage.ledger.forget_lane(LANE)
    await keyless(stage)
    assert (await stage.ledger.book(LANE)).next_nonce is None


@promise
async def parked_lane_counts_for_whoever_made_it_and_for_nobody_else(stage: Stage) -> None:
    assert await stage.ledger.admit_lane("bob", LANE, 1)
    await parked(stage)
    assert not await stage.ledger.admit_lane("bob", f"{LANE[:-2]}bb", 1), "it is still there"
    assert await stage.ledger.admit_lane("bob", LANE, 1)
    assert await stage.ledger.admit_lane("alice", LANE, 1)
    assert await stage.ledger.admit_lane("alice", f"{LANE[:-2]}cc", 1), "what bob made costs alice nothing"


# -- followers


@promise
async def news_of_a_lane_reach_who_follows_it_and_take_no_wake_up(stage: Stage) -> None:
    lane, quiet = await stage.lane(), await stage.lane("near:net:quiet:ed25519.b")
    fence = await stage.own(lane)
    lanes = [lane, quiet]
    while await stage.ledger.wait_news(lanes, 0.2):
        pass  # a new subscription may ring
    while await stage.ledger.wait_wake([lane], 0.2):
        pass
    hearing = asyncio.create_task(stage.ledger.wait_news(lanes, 30))
    await asyncio.sleep(0)
    [write] = await stage.inflight(fence)
    assert await hearing == {lane}
    assert await stage.ledger.wait_wake([lane], 30) == {lane}
    while await stage.ledger.wait_news(lanes, 0.2):
        pass
    hearing = asyncio.create_task(stage.ledger.wait_news(lanes, 30))
    await asyncio.sleep(0)
    await stage.settle_one(fence, stage.done(write))
    assert await hearing == {lane}
