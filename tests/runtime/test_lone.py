"""One intent at a time: entry and end travel with the wake-ups, and whatever is odd about those costs a read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.runtime.stage import POOL, TIMING, Counting, Stage
from tests.waiting import until
from txmanager.core.ledger import Claim, Entry, Taken
from txmanager.core.models import Record
from txmanager.core.seal import SealMode
from txmanager.core.states import LaneState
from txmanager.runtime.lane.sealing import make_seals
from txmanager.runtime.manager import TxManager

CALM = replace(TIMING, lease_ms=60_000, margin_ms=900)
"""Without renewals, which count what is queued and wake the lane."""


async def calm(stage: Stage, **more: object) -> Counting:
    """A worker that took all there was, and counts what it asks of the ledger from now on."""
    counting = Counting(stage.ledger)
    running = await stage.start(ledger=counting, timing=CALM, **more)
    [held] = running.worker._held.values()
    await until(lambda: counting.counts["take"] and not held.lane.sending, what="the lane has nothing to do")
    await stage.done(await stage.submit(stage.transfer("k1", 1)))  # this worker is subscribed from here on
    await asyncio.sleep(0.1)
    counting.counts.clear()
    return counting


@pytest.fixture(params=["memory", "redis"])
def either(request: pytest.FixtureRequest) -> Stage:
    stage: Stage = request.getfixturevalue("stage" if request.param == "memory" else "redis_stage")
    return stage


async def test_a_lone_intent_is_signed_without_a_take_and_its_end_known_without_a_read(either: Stage) -> None:
    counting = await calm(either)
    callers = Counting(either.ledger)
    manager = TxManager(callers)
    await manager.wait(POOL, "k1", 5.0)
    await either.ledger.wait_final(either.lane, either.transfer("k1").id, 0.01)  # subscribed
    callers.counts.clear()
    for n in range(2, 6):
        await either.submit(either.transfer(f"k{n}", n))
        record = await manager.wait(POOL, f"k{n}", 10.0)
        assert record == await either.read(f"k{n}")
    assert callers.counts["read"] == 4, "one before the wait, none after it"
    assert counting.counts["take"] == 0
    assert either.amounts() == [1, 2, 3, 4, 5]


async def test_what_comes_in_while_another_is_signed_loses_nothing(either: Stage) -> None:
    await calm(either)
    ids = [id for n in range(2, 60) for id in await either.submit(either.transfer(f"k{n}", n))]
    await either.done(ids)
    assert either.amounts() == list(range(1, 60))


def _lost(entry: Taken) -> Taken | None:
    return None


def _changed(entry: Taken) -> Taken:
    """Another amount, and nobody noticed: a foreign publisher, for example."""
    intent = replace(entry.intent, payload={**entry.intent.payload, "amount": "777"})
    return replace(entry, intent=intent, digest="0" * 40)


def _of_another_life(entry: Taken) -> Taken:
    return replace(entry, life="another")


def _of_another_place(entry: Taken) -> Taken:
    ms, _, count = entry.position.partition("-")
    return replace(entry, position=f"{ms}-{int(count) + 7}")


def _impossible(entry: Taken) -> Taken:
    """What would fail if anybody believed it."""
    return replace(entry, intent=replace(entry.intent, payload={"receiver_id": "Not A Name", "amount": "1"}))


def _breaking(entry: Taken) -> Taken:
    return replace(entry, intent=replace(entry.intent, payload={}))


def _unknown(entry: Taken) -> Taken:
    return replace(entry, intent=replace(entry.intent, kind="near.of_tomorrow"))


def _late(entry: Taken) -> Taken:
    return replace(entry, intent=replace(entry.intent, max_age_s=1), at=entry.at - 60_000)


@pytest.mark.parametrize(
    "odd", [_lost, _changed, _of_another_life, _of_another_place, _impossible, _breaking, _unknown, _late]
)
async def test_a_wake_up_that_does_not_say_what_is_queued_is_not_believed(
    stage: Stage, odd: Callable[[Taken], Taken | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = await calm(stage)
    heard = stage.ledger.heard

    def said(lane: str) -> Taken | None:
        entry = heard(lane)
        return odd(entry) if entry is not None else None

    monkeypatch.setattr(stage.ledger, "heard", said)
    await stage.done(await stage.submit(stage.transfer("k2", 2)), timeout=5)
    assert counting.counts["take"] >= 1
    assert stage.amounts() == [1, 2]


async def test_a_wake_up_whose_seal_does_not_fit_sets_nothing_aside(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    seals = make_seals(["s" * 32], SealMode.REQUIRE)
    stage.producer._seals = seals
    await calm(stage, seals=seals)
    heard = stage.ledger.heard
    monkeypatch.setattr(stage.ledger, "heard", lambda lane: (e := heard(lane)) and replace(e, seal="no seal"))
    [record] = await stage.done(await stage.submit(stage.transfer("k2", 2)), timeout=5)
    assert record.hold is None


async def test_a_paused_lane_signs_nothing_that_a_wake_up_brings(either: Stage) -> None:
    await calm(either)
    intent, id = either.transfer("k2", 2), either.transfer("k2", 2).id
    [claimed] = await either.ledger.claim([Claim(id, intent.fingerprint, either.lane, "life")])
    await either.ledger.set_lane(either.lane, LaneState.PAUSED)
    await either.ledger.append(either.lane, [Entry(intent, claimed.life, claimed.born)])
    await asyncio.sleep(0.3)
    assert not (await either.read(id)).attempts
    await either.ledger.set_lane(either.lane, LaneState.ACTIVE)
    await either.done([id])
    assert either.amounts() == [1, 2]


async def test_a_lane_that_breaks_after_the_write_ahead_loses_nothing_of_what_a_wake_up_brought(stage: Stage) -> None:
    armed = False

    def point(name: str) -> None:
        nonlocal armed
        if name == "after_write_ahead" and armed:
            armed = False
            raise RuntimeError("a bug")

    await stage.start(point=point)
    await stage.done(await stage.submit(stage.transfer("k1", 1)))
    await asyncio.sleep(0.1)
    armed = True
    await stage.done(await stage.submit(stage.transfer("k2", 2)), timeout=10)
    assert not armed
    assert stage.amounts() == [1, 2]


async def test_an_end_of_another_life_is_not_taken_for_this_one(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign installation may speak on the same channel."""
    await calm(stage)
    wait_final = stage.ledger.wait_final

    async def lying(lane: str, id: object, timeout_s: float) -> Record | None:
        told = await wait_final(lane, id, timeout_s)  # type: ignore[arg-type]
        return replace(told, life="another") if told is not None else None

    monkeypatch.setattr(stage.ledger, "wait_final", lying)
    await stage.submit(stage.transfer("k2", 2))
    record = await TxManager(stage.ledger).wait(POOL, "k2", 10.0)
    assert record == await stage.read("k2")
