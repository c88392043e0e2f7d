"""What a monitor may do to a lane (look, and ask), and the no-ops of its owner that fill gaps."""

from __future__ import annotations

import pytest

from txmanager.core.alerts import Alert, Check
from txmanager.core.errors import Fenced, Refused, RolledBack
from txmanager.core.ledger import Landed
from txmanager.core.models import Attempt, Purpose
from txmanager.core.states import LaneState
from txmanager.testing.ledger.lanes import drain
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import BASE, LONG_MS, Stage
from txmanager.testing.waiting import until

NEVER = "near:net:never:1"


def noop(nonce: int, hash: str = "", signed_at: int = 1_700_000_000_000) -> Attempt:
    return Attempt(nonce, hash or f"noop{nonce}", b"\x00\xffraw", Purpose.NOOP, signed_at, terms={"why": "gap"})


@promise
async def anybody_may_read_what_is_in_flight(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [one, two] = await stage.inflight(fence, 2)
    await stage.queued(lane)
    found = await stage.ledger.pending(lane)
    assert [(r.id, r.attempts) for r in found] == [(w.id, (w.attempt,)) for w in (one, two)]
    await stage.ledger.settle(fence, [stage.done(one)])
    assert [r.id for r in await stage.ledger.pending(lane)] == [two.id]
    assert await stage.ledger.pending(NEVER) == []


@promise
async def check_wakes_the_owner_and_a_repeat_asks_nothing_more(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    await drain(stage, [lane])
    assert await stage.ledger.check(lane, "m1:7", [Alert.STUCK, Alert.DROPPED])
    assert await stage.ledger.wait_wake([lane], 30) == {lane}
    assert await stage.ledger.check(lane, "m1:7", [Alert.STUCK, Alert.DROPPED])
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.check, view.asks, view.owner, view.epoch) == (
        Check("m1:7", frozenset({Alert.STUCK, Alert.DROPPED})),
        1,
        "w1",
        1,
    )
    await stage.ledger.check(lane, "m1:8")
    [renewed] = await stage.ledger.renew([fence], LONG_MS)
    assert (renewed.word, renewed.asks) == ("renewed", 2)


@promise
async def check_of_an_unknown_lane_makes_none(stage: Stage) -> None:
    assert not await stage.ledger.check(NEVER, "m1:1")
    assert await stage.ledger.lane(NEVER) is None


@promise
async def fills_are_kept_until_they_are_over_and_the_cursor_stays(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    assert await stage.ledger.fill(fence) == []
    low, high, dearer = noop(BASE - 9), noop(BASE - 1), noop(BASE - 9, "dearer", 1_700_000_000_001)
    assert await stage.ledger.fill(fence, [high, low]) == [low, high]
    assert await stage.ledger.fill(fence, [high, low]) == [low, high]
    assert await stage.ledger.fill(fence, [dearer], [high.name]) == [low, dearer]
    assert await stage.ledger.fill(await stage.take_over(lane, fence)) == [low, dearer]
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.cursor, view.depth, view.unfinished) == (BASE, 0, 0)


@promise
async def fill_never_reaches_the_cursor(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    for nonce in (BASE, 10 * 10 ** len(str(BASE))):
        with pytest.raises(Refused, match="is not below the cursor"):
            await stage.ledger.fill(fence, [noop(BASE - 1), noop(nonce)])
    assert await stage.ledger.fill(fence) == []
    lease = await stage.ledger.lease(await stage.lane("near:net:b:2"), "w1", "t", LONG_MS)
    assert lease.fence is not None
    with pytest.raises(Refused, match="is not below the cursor"):
        await stage.ledger.fill(lease.fence, [noop(1)])


@promise
async def quarantined_lane_fills_nothing_new(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    await stage.ledger.fill(fence, [noop(BASE - 1)])
    await stage.ledger.set_lane(lane, LaneState.QUARANTINED, "foreign_use")
    with pytest.raises(Refused, match="quarantined"):
        await stage.ledger.fill(fence, [noop(BASE - 2)])
    assert await stage.ledger.fill(fence, [noop(BASE - 1)]) == [noop(BASE - 1)]
    assert await stage.ledger.fill(fence, (), [noop(BASE - 1).name]) == []


@promise
async def stale_owner_cannot_fill(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    await stage.take_over(lane, old)
    with pytest.raises(Fenced):
        await stage.ledger.fill(old, [noop(BASE - 1)])


@promise
async def fill_on_another_history_writes_nothing(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    view = await stage.ledger.lane(lane)
    assert view is not None
    await stage.ledger.fill(fence, [noop(BASE - 1)])
    await stage.ledger.vouch(fence, view.history_id, "elsewhere")
    with pytest.raises(RolledBack):
        await stage.ledger.fill(fence, [noop(BASE - 2)])
    assert await stage.ledger.fill(fence, [noop(BASE - 1)]) == [noop(BASE - 1)]


def landed(nonce: int, mark: str = "", size: int = 100) -> Landed:
    return Landed(nonce, f"hash{nonce}{mark}", b"\x00\xff" * (size // 2), f"default/p/k{nonce}")


@promise
async def final_bytes_are_kept_by_nonce_and_each_once(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    assert await stage.ledger.kept(lane) == []
    await stage.ledger.keep(fence, [landed(8), landed(10)], 60_000, 10_000)
    await stage.ledger.keep(fence, [landed(10), landed(9)], 60_000, 10_000)
    assert await stage.ledger.kept(lane) == [landed(8), landed(9), landed(10)]
    assert await stage.ledger.kept(lane, 9) == [landed(9), landed(10)]


@promise
async def final_bytes_beyond_their_room_push_the_oldest_out(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    await stage.ledger.keep(fence, [landed(1), landed(2)], 60_000, 250)
    await stage.ledger.keep(fence, [landed(3)], 60_000, 250)
    assert await stage.ledger.kept(lane) == [landed(2), landed(3)]
    await stage.ledger.keep(fence, [landed(4)], 60_000, 250)
    assert await stage.ledger.kept(lane) == [landed(3), landed(4)]
    await stage.ledger.keep(fence, (), 60_000, 0)
    assert await stage.ledger.kept(lane) == []


@promise
async def final_bytes_are_forgotten_with_age(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    await stage.ledger.keep(fence, [landed(1, size=900)], 50, 1_000)

    async def forgotten() -> bool:
        return await stage.ledger.kept(lane) == []

    await until(forgotten)
    await stage.ledger.keep(fence, [landed(2), landed(3, size=800)], 60_000, 1_000)  # what is gone takes no room
    assert await stage.ledger.kept(lane) == [landed(2), landed(3, size=800)]
    later = await stage.ledger.now_ms() + 20

    async def older() -> bool:
        return await stage.ledger.now_ms() > later

    await until(older)
    await stage.ledger.keep(fence, [landed(4)], 10, 1_000)
    assert await stage.ledger.kept(lane) in ([landed(4)], [])


@promise
async def stale_owner_keeps_nothing(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    await stage.take_over(lane, old)
    with pytest.raises(Fenced):
        await stage.ledger.keep(old, [landed(1)], 60_000, 1_000)
    assert await stage.ledger.kept(lane) == []
