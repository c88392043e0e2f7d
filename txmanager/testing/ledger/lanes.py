"""The registry, lane states, workers, events and hints."""

from __future__ import annotations

import asyncio

import pytest

from txmanager.core.errors import Fenced, InvalidInput, LaneClosed, NotAllowed, NotFound, Outdated
from txmanager.core.ledger import Member, Route
from txmanager.core.models import IntentId, LaneSpec
from txmanager.core.states import LANE_TRANSITIONS, LaneState
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause, from_reason
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import LONG_MS, POOL, Stage
from txmanager.testing.waiting import until

ALIVE = (LaneState.ACTIVE, LaneState.DRAINING, LaneState.PAUSED, LaneState.QUARANTINED)


@promise
async def registered_lane_is_published_and_a_repeat_refreshes_it(stage: Stage) -> None:
    lane = "near:net:a:1"
    view = await stage.ledger.register(LaneSpec(lane, POOL, 2, 10, {"key": "ed25519:x"}))
    assert (view.id, view.state, view.cursor, view.owner, view.epoch) == (lane, LaneState.ACTIVE, None, "", 0)
    assert await stage.ledger.routes() == [Route(lane, POOL, 2, LaneState.ACTIVE)]
    fence = await stage.own(lane)
    await stage.queued(lane)
    again = await stage.ledger.register(LaneSpec(lane, "other", 3, 20, {"key": "ed25519:y"}))
    assert again.spec == LaneSpec(lane, "other", 3, 20, {"key": "ed25519:y"})
    assert (again.owner, again.epoch, again.depth) == ("w1", 1, 1)
    assert await stage.ledger.routes() == [Route(lane, "other", 3, LaneState.ACTIVE)]
    assert (await stage.ledger.renew([fence], LONG_MS))[0].word == "renewed"


@promise
async def lanes_are_listed_by_pool(stage: Stage) -> None:
    await stage.ledger.register(LaneSpec("near:net:a:1", "p1"))
    await stage.ledger.register(LaneSpec("near:net:b:2", "p2"))
    assert {lane.id for lane in await stage.ledger.lanes()} == {"near:net:a:1", "near:net:b:2"}
    assert [lane.id for lane in await stage.ledger.lanes("p2")] == ["near:net:b:2"]
    assert await stage.ledger.lanes("p3") == []
    assert await stage.ledger.lane("near:net:never:1") is None


@promise
async def lane_states_follow_the_table(stage: Stage) -> None:
    for before in ALIVE:
        for after in LaneState:
            lane = await stage.lane(f"near:net:{before}:{after}")
            if before is not LaneState.ACTIVE:
                await stage.ledger.set_lane(lane, before)
            if after is before or after in LANE_TRANSITIONS[before]:
                assert (await stage.ledger.set_lane(lane, after)).state is after
            else:
                with pytest.raises(NotAllowed, match=f"is {before}; it cannot become {after}"):
                    await stage.ledger.set_lane(lane, after)


@promise
async def closed_lane_is_closed_for_ever(stage: Stage) -> None:
    lane = await stage.lane()
    await stage.ledger.set_lane(lane, LaneState.DRAINING)
    await stage.ledger.set_lane(lane, LaneState.CLOSED)
    assert (await stage.ledger.set_lane(lane, LaneState.CLOSED)).state is LaneState.CLOSED
    with pytest.raises(LaneClosed):
        await stage.lane(lane)
    with pytest.raises(NotAllowed):
        await stage.ledger.set_lane(lane, LaneState.ACTIVE)
    assert [r.state for r in await stage.ledger.routes()] == [LaneState.CLOSED]


@promise
async def lane_state_carries_reason_and_evidence_and_counts_as_one_ask(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    evidence = {"chain_nonce": "183000000000999"}
    for _ in range(2):
        view = await stage.ledger.set_lane(lane, LaneState.QUARANTINED, "foreign_use", evidence)
        assert (view.state, view.reason, view.evidence) == (LaneState.QUARANTINED, "foreign_use", evidence)
    assert (await stage.ledger.renew([fence], LONG_MS))[0].asks == 1
    view = await stage.ledger.set_lane(lane, LaneState.ACTIVE)
    assert (view.reason, view.evidence, view.asks) == ("", {}, 2)
    assert [r.state for r in await stage.ledger.routes()] == [LaneState.ACTIVE]
    with pytest.raises(NotFound):
        await stage.ledger.set_lane("near:net:never:1", LaneState.PAUSED)


@promise
async def cause_and_command_stand_beside_the_reason(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    paused = await stage.ledger.set_lane(lane, LaneState.PAUSED, "why")
    assert (paused.cause, paused.command) == (PauseCause.OPERATOR, None)
    commanded = await stage.ledger.set_lane(lane, LaneState.PAUSED, "why", command=LaneCommand.REBASELINE_PAUSED)
    assert (commanded.cause, commanded.command) == (PauseCause.OPERATOR, LaneCommand.REBASELINE_PAUSED)
    again = await stage.ledger.set_lane(lane, LaneState.PAUSED, commanded.reason)
    assert (again.reason, again.command) == (commanded.reason, None)
    assert again.asks == commanded.asks + 1 == paused.asks + 2, "the owner hears of it, whatever the reason says"
    for cause in PauseCause:
        view = await stage.ledger.set_lane(lane, LaneState.PAUSED, cause=cause, fence=fence)
        assert (view.cause, view.command) == (cause, None)
    for grave in QuarantineCause:
        view = await stage.ledger.set_lane(lane, LaneState.QUARANTINED, "x", cause=grave, fence=fence)
        assert view.cause is grave
    view = await stage.ledger.set_lane(lane, LaneState.ACTIVE)
    assert (view.cause, view.command, view.reason) == (None, None, "")
    for state, other in ((LaneState.ACTIVE, PauseCause.HELD), (LaneState.PAUSED, QuarantineCause.KEY_MISSING)):
        with pytest.raises(InvalidInput, match="cause"):
            await stage.ledger.set_lane(lane, state, cause=other)
    with pytest.raises(InvalidInput, match="command"):
        await stage.ledger.set_lane(lane, LaneState.PAUSED, cause=PauseCause.HELD, command=LaneCommand.REBASELINE)


@promise
async def decision_about_a_lane_rests_on_its_newest_reading(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    read = await stage.ledger.set_lane(lane, LaneState.PAUSED, "why")
    cause = QuarantineCause.BAD_SIGNATURE
    stopped = await stage.ledger.set_lane(lane, LaneState.QUARANTINED, "x", cause=cause, fence=fence)
    for owner in (None, fence):
        with pytest.raises(Outdated, match="meanwhile"):
            await stage.ledger.set_lane(lane, LaneState.ACTIVE, fence=owner, asks=read.asks)
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.state, view.cause, view.asks) == (LaneState.QUARANTINED, cause, stopped.asks), "nothing changed"
    for _ in range(2):  # a lost reply: it stands so already
        view = await stage.ledger.set_lane(lane, LaneState.ACTIVE, asks=stopped.asks)
        assert (view.state, view.asks) == (LaneState.ACTIVE, stopped.asks + 1)


@promise
async def words_of_a_reason_are_no_cause_and_no_command(stage: Stage) -> None:
    lane = await stage.lane()
    for text in ("held: x", "rebaseline", "rebaseline, and stay paused", "insufficient_funds", "rebaselined; resume"):
        await stage.ledger.set_lane(lane, LaneState.ACTIVE)
        view = await stage.ledger.set_lane(lane, LaneState.PAUSED, text)
        assert (view.cause, view.command) == (PauseCause.OPERATOR, None)
        assert text in view.reason
        assert from_reason(view.state, view.reason) == (PauseCause.OPERATOR, None), "nor to release 0.1.0"


@promise
async def stale_owner_cannot_change_the_lane(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    new = await stage.take_over(lane, old)
    with pytest.raises(Fenced, match="belongs to w2"):
        await stage.ledger.set_lane(lane, LaneState.PAUSED, "funds", fence=old)
    assert (await stage.ledger.set_lane(lane, LaneState.PAUSED, "funds", fence=new)).state is LaneState.PAUSED


@promise
async def lane_view_counts_what_is_there(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    batch = await stage.inflight(fence, 3)
    await stage.queued(lane, 2)
    await stage.ledger.settle(fence, [stage.done(batch[0])])
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.depth, view.unfinished, view.unretired) == (4, 2, 1)
    assert 0 <= view.oldest_ms < 60_000
    assert view.signed_upto == batch[2].position
    newest = (await stage.ledger.take(fence, 9))[-1]
    assert view.last_id == newest.position


# -- workers


@promise
async def members_are_those_whose_heartbeat_is_fresh(stage: Stage) -> None:
    await stage.ledger.heartbeat(Member("w2", frozenset({"near:net:a:1", "near:net:b:2"})), LONG_MS)
    await stage.ledger.heartbeat(Member("w1", frozenset()), LONG_MS)
    await stage.ledger.heartbeat(Member("w3", frozenset()), 1)

    async def names() -> list[str]:
        return [m.name for m in await stage.ledger.members()]

    async def expired() -> bool:
        return await names() == ["w1", "w2"]

    await until(expired, every=0.005)
    assert (await stage.ledger.members())[1].lanes == {"near:net:a:1", "near:net:b:2"}
    await stage.ledger.heartbeat(Member("w1", frozenset({"near:net:c:3"})), LONG_MS)
    assert (await stage.ledger.members())[0].lanes == {"near:net:c:3"}
    await stage.ledger.leave("w2")
    await stage.ledger.leave("w2")
    assert await names() == ["w1"]


@promise
async def asking_for_members_makes_none(stage: Stage) -> None:
    assert await stage.ledger.members() == []
    assert await stage.ledger.members() == []


# -- events


@promise
async def events_are_read_on_from_the_last_one(stage: Stage) -> None:
    lane = await stage.lane()
    entries = await stage.queued(lane, 5)
    first = await stage.ledger.events(lane, count=2)
    rest = await stage.ledger.events(lane, after=first[-1].id)
    assert [e.intent for e in (*first, *rest)] == [e.intent.id for e in entries]
    assert await stage.ledger.events(lane, after=rest[-1].id) == []
    assert all(e.lane == lane and e.at > 0 for e in first)
    assert await stage.ledger.events("near:net:never:1") == []


# -- hints


@promise
async def append_wakes_whoever_waits_for_the_lane(stage: Stage) -> None:
    lane, quiet = await stage.lane("near:net:a:1"), await stage.lane("near:net:b:2")
    await drain(stage, [lane, quiet])
    waiting = asyncio.create_task(stage.ledger.wait_wake([lane, quiet], 30))
    await asyncio.sleep(0)
    assert not waiting.done()
    await stage.queued(lane)
    assert await waiting == {lane}
    assert await stage.ledger.wait_wake([quiet], 0.01) == set()


@promise
async def wake_before_the_wait_is_not_lost(stage: Stage) -> None:
    lane = await stage.lane()
    await drain(stage, [lane])
    await stage.queued(lane)
    assert await stage.ledger.wait_wake([lane], 30) == {lane}


@promise
async def operators_requests_wake_the_owner(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    write = await stage.held(fence)
    for ask in (
        stage.ledger.cancel(write.id),
        stage.ledger.resolve(write.id, {"verb": "kill"}),
        stage.ledger.set_lane(lane, LaneState.PAUSED),
    ):
        await drain(stage, [lane])
        await ask
        assert await stage.ledger.wait_wake([lane], 30) == {lane}


@promise
async def end_of_an_intent_wakes_its_callers(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    batch = await stage.inflight(fence, 2)
    [cancelled] = await stage.queued(lane)

    truly = set()

    async def wait(n: int, id: IntentId) -> None:
        await stage.ledger.wait_final(lane, id, 0.05)  # the first one may only subscribe
        while (record := await stage.ledger.read(id)) is None or not record.status.final:
            truly.add(n)
            await stage.ledger.wait_final(lane, id, 30)

    ids = [batch[0].id, batch[0].id, batch[1].id, cancelled.intent.id]
    async with asyncio.timeout(20):
        waiting = [asyncio.create_task(wait(n, id)) for n, id in enumerate(ids)]
        await until(lambda: len(truly) == len(ids), what="everybody waits")
        assert not any(task.done() for task in waiting)
        await stage.ledger.settle(fence, [stage.done(w) for w in batch])
        await stage.ledger.cancel(cancelled.intent.id)
        await asyncio.gather(*waiting)


async def drain(stage: Stage, lanes: list[str]) -> None:
    """Subscribe, and hear everything that was said so far."""
    while await stage.ledger.wait_wake(lanes, 0.15):
        pass
