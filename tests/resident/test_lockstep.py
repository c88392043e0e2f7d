"""Schedules of the resident loop under the simulator's faults, judged by its checker, which must catch seeded bugs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

from tests.resident.bugs import BUGS
from tests.resident.lockstep import Child, ResidentWorld, resident_plan
from tests.sim.world import run

SCHEDULES = int(os.environ.get("TXMANAGER_RESIDENT_SCHEDULES", "120"))
"""500 take a minute."""
HUNTED = 150
NEEDS = {"signs_on_top_of_a_stranger": "foreign_use"}
"""Caught only where that happens, which is rare: other schedules are not run."""


@pytest.fixture
def child() -> Iterator[Child]:
    ResidentWorld.child = made = Child()
    yield made
    made.close()


def test_every_promise_holds_in_every_schedule(child: Child):
    ends: Counter[str] = Counter()
    struck: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        result = run(resident_plan(seed), kind=ResidentWorld)
        assert not result.violations, f"seed {seed}: {result.violations[:3]}"
        ends += result.ends
        struck.update(kind for _, kind, _, _ in result.struck)
    assert sum(struck.values()) > 10 * SCHEDULES
    assert {"done", "failed", "cancelled", "held", "quarantined"} <= {str(end) for end in ends}


def test_the_same_schedule_is_the_same_run(child: Child):
    first, again = (run(resident_plan(7), kind=ResidentWorld) for _ in range(2))
    assert (first.digest, first.steps, first.ends) == (again.digest, again.steps, again.ends)


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_is_caught(name: str):
    ResidentWorld.child = child = Child(BUGS[name])
    try:
        needs = NEEDS.get(name)
        plans = (resident_plan(seed) for seed in range(20 * HUNTED))
        fitting = (plan for plan in plans if needs is None or any(event.kind == needs for event in plan.events))
        for plan in islice(fitting, HUNTED):
            if run(plan, kind=ResidentWorld).violations:
                return
    finally:
        child.close()
    pytest.fail(f"{name} survived {HUNTED} schedules")


def test_there_are_ten_seeded_bugs():
    assert len(BUGS) >= 10
