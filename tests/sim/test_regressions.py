"""What schedules found, told as small stories of their own: each with the bug planted again, to see it break."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from tests.sim import logs
from tests.sim.checker import check
from tests.sim.history import History
from tests.sim.loop import VirtualLoop
from tests.sim.mutants import MUTANTS
from tests.sim.plan import Event, Plan, draw
from tests.sim.world import World

QUIET = replace(
    draw(0),
    lanes=1,
    spare_lanes=0,
    workers=2,
    producers=1,
    intents=2,
    window=4,
    max_inflight=256,
    chaos_s=25.0,
    block_ms=600,
    validity=86_400,
    epoch_blocks=20_000,
    nodes=("direct",),
    lease_ms=3000,
    vouches=False,
    hold_after_ms=24 * 3600 * 1000,
    retention_ms=7 * 24 * 3600 * 1000,
    loss=0.0,
    same_name=True,
    shuffle=0.0,
    rates={},
    events=(),
)
"""No faults at all: a story adds its own."""


def tell(plan: Plan, arrivals: list[float]) -> tuple[list[str], World]:
    loop = VirtualLoop(random.Random(0))
    asyncio.set_event_loop(loop)
    history = History(loop.time)
    logs.listen(history)
    try:
        world = World(plan, loop, history)
        world.arrivals = arrivals
        loop.run_until_complete(world.main())
        return check(world.evidence()).violations, world
    finally:
        asyncio.set_event_loop(None)
        loop.discard()
        logs.listen(None)


def rolled_back_behind_a_frozen_owner(seat: float) -> Plan:
    """The owner freezes; another takes over, signs and freezes too; the ledger forgets, the first one comes back."""
    events = (
        Event("roll_back", 6.0, 0.97, 0.0),
        Event("freeze", 6.05, seat, 0.99),
        Event("stall", 11.1, 0.0, 0.5),  # what the other sent is in no block yet: the chain gives no hint
        Event("freeze", 11.5, 0.9 - seat, 0.99),
        Event("retry_now", 13.6, 0.6, 0.0),
    )
    return replace(QUIET, events=events)


def test_a_former_owner_does_not_vouch_for_a_ledger_that_forgot_its_successor() -> None:
    for seat in (0.0, 0.9):
        violations, _ = tell(rolled_back_behind_a_frozen_owner(seat), [1.0, 11.2])
        assert violations == []


def test_the_roll_back_story_can_fail() -> None:
    with MUTANTS["former_owner_vouches"].planted():
        told = [tell(rolled_back_behind_a_frozen_owner(seat), [1.0, 11.2])[0] for seat in (0.0, 0.9)]
    assert any("rolled back" in violation for violations in told for violation in violations)


@pytest.mark.parametrize("window", [1, 2])
def test_what_is_cancelled_in_a_full_window_ends(window: int) -> None:
    """All that is in flight is lost on the way and cancelled: nothing will ever land and kill it."""
    everything_is_dropped = {"drop": 1.0}
    events = (Event("cancel", 3.0, 0.0, 0.0), Event("cancel", 3.1, 0.6, 0.0))
    plan = replace(QUIET, window=window, chaos_s=6.0, rates=everything_is_dropped, events=events)
    violations, world = tell(plan, [1.0, 1.1])
    assert violations == []
    assert not any(store.records for store in world.ledger.stores.values())


def test_a_clock_set_back_delays_nothing() -> None:
    back = tuple(Event("worker_clock_jump", 2.0, seat, 0.0) for seat in (0.0, 0.9))
    plan = replace(QUIET, chaos_s=6.0, rates={"drop": 1.0}, events=back)
    violations, world = tell(plan, [1.0, 1.1])
    assert violations == []
    assert world.loop.time() < 60
