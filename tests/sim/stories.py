"""Small schedules written by hand: what random ones found once, so rare that nobody should wait for it again."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from tests.sim import logs
from tests.sim.checker import check
from tests.sim.history import History
from tests.sim.ledger import few_homes
from tests.sim.loop import VirtualLoop, ordered_task_groups
from tests.sim.nodes import decoded_once
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
        with decoded_once(), few_homes(), ordered_task_groups():
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


def lost_before_the_clock_is_set_back() -> Plan:
    """What was sent is dropped; then the clock of the only worker goes back by an hour."""
    back = Event("worker_clock_jump", 5.0, 0.0, 0.0)
    return replace(QUIET, workers=1, chaos_s=8.0, rates={"drop": 1.0}, events=(back,))


STORIES: dict[str, list[tuple[Plan, list[float]]]] = {
    "former_owner_vouches": [(rolled_back_behind_a_frozen_owner(seat), [1.0, 11.2]) for seat in (0.0, 0.9)],
    "clock_set_back_stops_the_asking": [(lost_before_the_clock_is_set_back(), [4.0, 4.1])],
}
"""By the mutant that each is about."""
