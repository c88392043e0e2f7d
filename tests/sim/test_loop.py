"""The simulator's own parts: time that jumps, processes that die and freeze, schedules that replay."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.sim.checker import check
from tests.sim.history import Sent, Wrote
from tests.sim.loop import Process, Stuck, VirtualLoop
from tests.sim.mutants import MUTANTS
from tests.sim.plan import draw
from tests.sim.shrink import shrink, story
from tests.sim.world import World, run


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop(random.Random(0))
    yield loop
    loop.discard()


def test_a_day_of_sleep_takes_no_time(loop: VirtualLoop) -> None:
    started = time.process_time()
    loop.run_until_complete(asyncio.sleep(86_400))
    assert loop.time() == 86_400
    assert time.process_time() - started < 1


def test_nothing_of_a_killed_process_runs_not_even_its_finally(loop: VirtualLoop) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            seen.append("started")
            await asyncio.sleep(10)
            seen.append("went on")
        finally:
            seen.append("cleaned up")

    process = Process(loop, "p")
    process.spawn(work())
    loop.later(5, process.kill)
    loop.run_until_complete(asyncio.sleep(20))
    assert seen == ["started"]


def test_a_frozen_process_goes_on_where_it_stood_with_time_gone_by(loop: VirtualLoop) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(loop.time())
            await asyncio.sleep(1)

    process = Process(loop, "p")
    process.spawn(tick())
    loop.later(2.5, process.freeze)
    loop.later(9.5, process.thaw)
    loop.run_until_complete(asyncio.sleep(11))
    assert ticks == [0, 1, 2, 9.5, 10.5]


def test_a_loop_that_never_waits_ends_the_schedule(loop: VirtualLoop) -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110, spinning is the point
            await asyncio.sleep(0)

    loop.max_steps = 1_000
    with pytest.raises(Stuck):
        loop.run_until_complete(spin())


@pytest.mark.parametrize("seed", [1, 7, 23])
def test_one_seed_is_one_schedule(seed: int) -> None:
    first, second = run(draw(seed), verbose=True), run(draw(seed), verbose=True)
    assert first.lines == second.lines
    assert first.struck == second.struck
    assert first.lines, "a schedule in which nothing happens proves nothing"


def test_a_failing_schedule_shrinks_and_still_fails() -> None:
    with MUTANTS["broadcast_before_write_ahead"].planted():
        plan = next(draw(seed) for seed in range(50) if run(draw(seed)).violations)
        small = shrink(plan, budget=60)
    assert small.violations
    assert len(small.plan.rates) + len(small.plan.events) < len(plan.rates) + len(plan.events)
    assert "BROKEN" in story(small)


def test_the_checker_reads_the_history_and_not_the_code() -> None:
    """Facts that never happened, put into an honest history, are found out."""
    loop = VirtualLoop(random.Random(0))
    plan = replace(draw(3), rates={}, events=())
    from tests.sim.history import History

    history = History(loop.time)
    asyncio.set_event_loop(loop)
    world = World(plan, loop, history)
    loop.run_until_complete(world.main())
    assert check(world.evidence()).violations == []
    lane = next(iter(world.ledger.stores))
    history.note(Wrote(1.0, lane, "settle", 0, "stolen"))
    history.note(Sent(1.0, lane, "unheard of", "w9", False))
    words = " ".join(check(world.evidence()).violations)
    assert "fenced" in words
    assert "before it was written ahead" in words
    asyncio.set_event_loop(None)
    loop.discard()
