"""What comes next is signed while the last batch is on its way, and nothing of it is recorded or sent out of turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime.stage import POOL, TIMING, Counting, Running, Stage, metric
from tests.waiting import until
from txmanager.chains.near import NearChain
from txmanager.core.chain import SendReply
from txmanager.core.decide import Policy
from txmanager.core.ledger import Taken
from txmanager.core.models import Attempt, IntentId, LaneSpec, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.runtime.lane import ahead
from txmanager.runtime.lane.ahead import Ahead

CALM = replace(TIMING, lease_ms=60_000, margin_ms=900)
"""Without renewals, which count what is queued and wake the lane."""


class Held(NearChain):
    """Its sends begin, and end when `go_on` is set; it counts what was signed."""

    go_on: asyncio.Event
    signed: list[int]

    async def sign(self, lane: str, prepared: Any, first_nonce: int, *more: Any) -> list[Attempt]:
        attempts = await super().sign(lane, prepared, first_nonce, *more)
        self.signed += [attempt.nonce for attempt in attempts]
        return attempts

    async def broadcast(self, lane: str, attempts: Sequence[Attempt]) -> list[SendReply]:
        answered = await super().broadcast(lane, attempts)
        await self.go_on.wait()
        return answered


async def begun(stage: Stage, count: int, window: int = 2, **more: Any) -> tuple[list[IntentId], Running, Counting]:
    """The first of so many are on their way, as many as the window takes, and the next ones are signed."""
    go_on, signed = asyncio.Event(), list[int]()
    kind = type("HeldNow", (Held,), {"go_on": go_on, "signed": signed})
    counting = Counting(stage.ledger)
    await stage.ledger.register(LaneSpec(stage.lane, POOL))
    ids = await stage.submit(*(more.pop("intents", None) or stage.transfers(count)))
    more = {"timing": CALM, "policy": Policy(window=window, include_within_ms=500), **more}
    running = await stage.start(ledger=counting, kind=kind, **more)
    ahead = min(count, 2 * window)
    await until(lambda: len(signed) >= ahead, what="the next ones are signed while the first ones are on their way")
    assert counting.counts["record_attempts"] == 1, "nothing is recorded early"
    assert signed[ahead - 1] == signed[0] + ahead - 1
    return ids, running, counting


def go_on(running: Running) -> None:
    running.chain.go_on.set()  # type: ignore[attr-defined]


async def test_a_queue_is_signed_while_its_sends_are_on_their_way_and_sent_in_order(stage: Stage) -> None:
    ids, running, _ = await begun(stage, 9)
    go_on(running)
    await stage.done(ids)
    assert stage.amounts() == list(range(1, 10))
    signed = running.chain.signed  # type: ignore[attr-defined]
    assert signed == sorted(set(signed)), "each nonce was signed once"


async def test_what_is_cancelled_after_it_was_signed_ahead_is_not_sent(stage: Stage) -> None:
    ids, running, _ = await begun(stage, 7)
    await stage.manager.cancel(ids[2])
    go_on(running)
    records = await stage.finals(ids)
    assert [r.status for r in records] == [Status.DONE] * 2 + [Status.CANCELLED] + [Status.DONE] * 4
    assert stage.amounts() == [1, 2, 4, 5, 6, 7]
    assert metric(running.worker, "sends_total") == 6


async def test_what_stands_behind_it_at_the_end_of_the_queue_is_taken_at_once(stage: Stage) -> None:
    ids, running, _ = await begun(stage, 5, window=3)
    await stage.manager.cancel(ids[3])
    go_on(running)
    await stage.done(ids[4:])
    assert stage.amounts() == [1, 2, 3, 5]


async def test_what_cannot_be_paid_for_when_its_turn_comes_is_not_sent(stage: Stage) -> None:
    intents = [*stage.transfers(2), stage.transfer("dear", 10**30), stage.transfer("last", 4)]
    ids, running, _ = await begun(stage, 4, intents=intents)
    go_on(running)
    records = await stage.finals(ids)
    assert [r.status for r in records] == [Status.DONE] * 2 + [Status.FAILED, Status.DONE]
    assert metric(running.worker, "sends_total") == 3


async def test_what_was_signed_ahead_waits_while_its_lane_is_paused(stage: Stage) -> None:
    ids, running, _ = await begun(stage, 5, timing=TIMING)
    await stage.ledger.set_lane(stage.lane, LaneState.PAUSED)
    [held] = running.worker._held.values()
    await until(lambda: held.lane.plan.state is LaneState.PAUSED, what="its owner knows")
    go_on(running)
    await stage.finals(ids[:2])
    assert metric(running.worker, "sends_total") == 2
    await stage.ledger.set_lane(stage.lane, LaneState.ACTIVE)
    await stage.done(ids)
    assert stage.amounts() == [1, 2, 3, 4, 5]


async def test_what_gets_too_old_after_it_was_signed_ahead_fails_unsent(stage: Stage) -> None:
    intents = [*stage.transfers(3), stage.transfer("old", 4, max_age_s=2), stage.transfer("last", 5)]
    late_ms = [0]
    ids, running, _ = await begun(stage, 5, 3, intents=intents, clock=lambda: time.time_ns() // 1_000_000 + late_ms[0])
    late_ms[0] = 60_000
    go_on(running)
    records = await stage.finals(ids, 10)
    assert [r.status for r in records] == [Status.DONE] * 3 + [Status.FAILED, Status.DONE]
    [outcome] = [r.outcome for r in records if r.outcome is not None and r.outcome.error is not None]
    assert outcome.error is not None
    assert outcome.error["code"] == "max_age"
    assert stage.amounts() == [1, 2, 3, 5]


async def test_a_lane_that_stops_leaves_nothing_behind(stage: Stage) -> None:
    ids, running, _ = await begun(stage, 9, timing=TIMING)
    await running.crash()
    await stage.start()
    await stage.done(ids)
    assert stage.amounts() == list(range(1, 10))


# -- by itself


def taken(number: int) -> Taken:
    intent = new_intent(key=f"k{number}", pool="p", kind="near.transfer", payload={"n": number})
    return Taken(intent, "life", f"{number}-0", number)


@dataclass
class Lane:
    """A queue whose first entry is signed, and an owner with room."""

    count: int = 9
    id: str = "lane"
    keyless: bool = False
    replaces: bool = False
    instant: bool = True
    page: int = 64
    more: bool = True
    news: int = 0
    asked: list[int] = field(default_factory=list)
    signed: list[int] = field(default_factory=list)
    usual: bool = True

    def __post_init__(self) -> None:
        self.head = SimpleNamespace(signed_upto="1-0", cursor=11)
        self.chain: Any = SimpleNamespace(
            traits=SimpleNamespace(replaces=self.replaces), instant=lambda _: self.instant
        )
        self.context = SimpleNamespace(read_ahead=lambda: self.page)
        self.plan = SimpleNamespace(
            head=self.head,
            signed_ahead=False,
            more_is_queued=lambda: self.more,
            take_begins=lambda: None,
            took=lambda positions, count: None,
            take_again=self.take_again,
        )

    def take_again(self) -> None:
        self.news += 1

    async def take(self, count: int) -> list[Taken]:
        self.asked.append(count)
        return [taken(n) for n in range(2, self.count + 1)][:count]

    async def sign(self, entries: Sequence[Taken], first: int) -> Any:
        self.signed += range(first, first + len(entries))
        attempts = [SimpleNamespace(nonce=first + n) for n in range(len(entries))]
        return ([(entry, None) for entry in entries], attempts) if self.usual else ([], [])

    def use(self, position: str, nonce: int) -> None:
        self.head.signed_upto, self.head.cursor = position, nonce + 1


def made(**more: Any) -> tuple[Lane, Ahead]:
    lane = Lane(**more)
    return lane, Ahead(lane, lane, lane.sign)  # type: ignore[arg-type]


async def numbers(reader: Ahead, room: int) -> list[int]:
    ready, attempts = await reader.get(room)
    assert [int(t.position[:-2]) + 9 for t, _ in ready] == [a.nonce for a in attempts]
    return [a.nonce for a in attempts]


async def test_what_has_no_room_yet_waits_for_the_next_turn():
    lane, reader = made()
    reader.start(4)
    assert await numbers(reader, 3) == [11, 12, 13]
    assert lane.plan.signed_ahead
    lane.use("4-0", 13)
    reader.start(4)  # there is something left
    assert await numbers(reader, 3) == [14]
    assert not lane.plan.signed_ahead
    assert (lane.asked, lane.signed, lane.news) == ([4], [11, 12, 13, 14], 0)


@pytest.mark.parametrize("moved", ["cursor", "signed_upto"])
async def test_what_does_not_continue_the_lane_is_taken_again(moved: str):
    lane, reader = made()
    reader.start(4)
    assert await numbers(reader, 2) == [11, 12]
    lane.use("3-0", 12)
    setattr(lane.head, moved, {"cursor": 14, "signed_upto": "4-0"}[moved])
    assert await numbers(reader, 2) == []
    assert lane.news == 1
    assert not lane.plan.signed_ahead


async def test_what_was_signed_long_ago_is_taken_again(monkeypatch: pytest.MonkeyPatch):
    lane, reader = made()
    reader.start(4)
    await asyncio.sleep(0)
    monkeypatch.setattr(ahead, "GOOD_FOR_S", 0.0)
    assert await numbers(reader, 4) == []
    assert lane.news == 1


async def test_what_is_not_usual_is_taken_again():
    lane, reader = made(usual=False)
    reader.start(4)
    assert await numbers(reader, 4) == []
    assert lane.news == 1


async def test_the_end_of_the_queue_asks_for_nothing():
    lane, reader = made(count=1)
    reader.start(4)
    assert await numbers(reader, 4) == []
    assert (lane.news, lane.signed) == (0, [])


@pytest.mark.parametrize(
    "lane", [{"more": False}, {"keyless": True}, {"replaces": True}, {"instant": False}, {"page": 3}], ids=str
)
async def test_nothing_is_signed_ahead_where_it_may_be_for_nothing(lane: dict[str, Any]):
    """Nothing more is queued; callers sign; the price may change; a signature takes its time; it fills the memory."""
    asked, reader = made(**lane)
    reader.start(4)
    await asyncio.sleep(0)
    assert not asked.plan.signed_ahead
    assert not asked.asked
