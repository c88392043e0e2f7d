"""One look a second for everybody who watches: what it tells, what it costs, and what a slow watcher gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from txmanager.core.errors import Unavailable
from txmanager.core.ledger import Claim, Entry
from txmanager.core.models import Intent, LaneSpec, new_intent
from txmanager.core.states import LaneState
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.deliver.board import Board, Look, Watcher

LANE, OTHER = "near:net:a:1", "near:net:a:2"


class Counted(MemoryLedger):
    """Counts the calls, and can be away."""

    def __init__(self) -> None:
        super().__init__(hop=self._count)
        self.calls: list[str] = []
        self.away = False

    async def _count(self, operation: str, side: str) -> None:
        if side == "request":
            self.calls.append(operation)
            if self.away:
                raise Unavailable("away")


@pytest.fixture
async def ledger() -> Counted:
    made = Counted()
    for lane in (LANE, OTHER):
        await made.register(LaneSpec(lane, "pool"))
    return made


@pytest.fixture
async def board(ledger: Counted) -> AsyncIterator[Board]:
    made = Board(ledger, period_s=0.01)
    yield made
    made.close()


async def submit(ledger: Counted, key: str, lane: str = LANE) -> Intent:
    intent = new_intent(key=key, pool="pool", kind="near.transfer", payload={})
    [claimed] = await ledger.claim([Claim(intent.id, intent.fingerprint, lane, key)])
    await ledger.append(lane, [Entry(intent, claimed.life, claimed.born)])
    return intent


async def until(watcher: Watcher, found: Callable[[Look], Any]) -> Look:
    for _ in range(500):
        looks, _ = await watcher.next(0.1)
        for look in looks:
            if found(look):
                return look
    raise AssertionError("never seen")


async def test_the_first_look_is_whole_and_the_next_ones_tell_what_changed(board: Board, ledger: Counted):
    async with board.watch() as watcher:
        [first], whole = await watcher.next(1)
        assert whole
        assert set(first.lanes) == {LANE, OTHER}
        assert await watcher.next(0.1) == ([], False), "nothing happened, nothing is told"
        await submit(ledger, "k1")
        look = await until(watcher, lambda look: look.events)
        assert [lane.id for lane in look.changed] == [LANE]
        assert [(event.intent.key, event.status.value) for event in look.events] == [("k1", "queued")]
        await ledger.set_lane(OTHER, LaneState.PAUSED, "why")
        look = await until(watcher, lambda look: look.changed)
        assert [(lane.id, lane.reason) for lane in look.changed] == [(OTHER, "why")]


async def test_no_event_is_told_twice_or_left_out(board: Board, ledger: Counted):
    async with board.watch() as watcher:
        await watcher.next(1)
        seen: list[str] = []

        def done(look: Look) -> bool:
            seen.extend(event.intent.key for event in look.events)
            return len(seen) >= 40

        for n in range(40):
            await submit(ledger, f"k{n}", (LANE, OTHER)[n % 2])
        await until(watcher, done)
        assert sorted(seen) == sorted(f"k{n}" for n in range(40))


async def test_a_hold_is_told_although_it_moves_no_lane(board: Board, ledger: Counted):
    lease = await ledger.lease(LANE, "w", "token", 600_000)
    assert lease.fence is not None
    await ledger.baseline(lease.fence, 5)
    await submit(ledger, "k1")
    [taken] = await ledger.take(lease.fence, 1)
    async with board.watch() as watcher:
        await watcher.next(1)
        await ledger.set_aside(lease.fence, taken, "bad", {})
        look = await until(watcher, lambda look: look.events)
        assert look.events[-1].status.value == "held"


async def test_however_many_watch_the_ledger_is_asked_once(ledger: Counted):
    board = Board(ledger, period_s=600)
    watchers = [board.watch() for _ in range(50)]
    for one in watchers:
        watcher = await one.__aenter__()
        _, whole = await watcher.next(1)
        assert whole
    assert ledger.calls.count("lanes") == 1
    for one in watchers:
        await one.__aexit__(None, None, None)
    assert board.newest is None, "nobody watches: nothing is kept"


async def test_one_who_reads_slowly_starts_again_from_a_whole_look(board: Board, ledger: Counted):
    async with board.watch() as fast, board.watch() as slow:
        await slow.next(1)
        for n in range(40):
            await submit(ledger, f"k{n}")
            await until(fast, lambda look: look.events)
        assert len(board.kept) <= 30
        looks, whole = await slow.next(1)
        assert whole
        assert looks == [board.newest]
        assert await slow.next(0.05) == ([], False)


async def test_more_events_than_a_look_tells_are_said_to_be_missing(board: Board, ledger: Counted):
    async with board.watch() as watcher:
        await watcher.next(1)
        intents = [new_intent(key=f"k{n}", pool="pool", kind="near.transfer", payload={}) for n in range(600)]
        born = await ledger.claim([Claim(i.id, i.fingerprint, LANE, i.id.key) for i in intents])
        await ledger.append(LANE, [Entry(i, c.life, c.born) for i, c in zip(intents, born, strict=True)])
        look = await until(watcher, lambda look: look.missed)
        assert len(look.events) == 500
        await submit(ledger, "late")
        look = await until(watcher, lambda look: any(event.intent.key == "late" for event in look.events))


async def test_a_ledger_that_is_away_is_told_once_and_its_return_too(board: Board, ledger: Counted):
    async with board.watch() as watcher:
        await watcher.next(1)
        ledger.away = True
        look = await until(watcher, lambda look: look.away)
        assert set(look.lanes) == {LANE, OTHER}, "what was known stays"
        assert await watcher.next(0.1) == ([], False)
        ledger.away = False
        look = await until(watcher, lambda look: not look.away)
        assert look.changed == []


async def test_a_lane_that_was_deleted_is_told(board: Board, ledger: Counted):
    keyless = "evm:1:0x00000000000000000000000000000000000000aa"
    await ledger.register(LaneSpec(keyless, "pool", keyless=True))
    async with board.watch() as watcher:
        await watcher.next(1)
        await ledger.forget_lane(keyless)
        look = await until(watcher, lambda look: look.gone)
        assert [lane.id for lane in look.gone] == [keyless]
