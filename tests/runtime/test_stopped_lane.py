"""A lane that may not sign is not woken by orders that it cannot carry out: a wake-up sends all unsent bytes again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tests.core.test_lane_plan import EVM, attempt, flight, lane, plan
from txmanager.core.decide import Replace
from txmanager.core.states import LaneState
from txmanager.runtime.lane.tracker import Tracker


@pytest.mark.parametrize(
    ("state", "wakes"), [(LaneState.ACTIVE, True), (LaneState.PAUSED, True), (LaneState.QUARANTINED, False)]
)
async def test_an_order_wakes_only_a_lane_that_may_carry_it_out(state: LaneState, wakes: bool):
    one, work = flight(1), asyncio.Event()
    tracker = object.__new__(Tracker)
    tracker._lane = SimpleNamespace(plan=plan(one, traits=EVM, stored=lane(state)), work=work)  # type: ignore[assignment]
    order = Replace(attempt(1), "why")
    await tracker._carry_out(one, order)
    assert (one.order, work.is_set()) == (order, wakes)
