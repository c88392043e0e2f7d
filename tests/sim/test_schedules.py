"""Schedules of the production code under faults: nothing lost, nothing twice, nothing out of order."""

from __future__ import annotations

import os

import pytest

from tests.sim.coverage import NEVER_STRIKE
from tests.sim.plan import ALL
from tests.sim.runner import run_many
from tests.sim.shrink import shrink, story

SCHEDULES = int(os.environ.get("TXMANAGER_SIM_SCHEDULES", "2000"))


def test_every_promise_holds_in_every_schedule() -> None:
    total = run_many(0, SCHEDULES, processes=os.cpu_count() or 1, progress=lambda _total, _seconds: None)
    if total.failures:
        from tests.sim.plan import draw

        seed = min(total.failures)
        small = story(shrink(draw(seed), budget=100))
        pytest.fail(f"make sim SEED={seed}: {total.failures[seed][:3]}\n{small}")
    missing = [kind for kind in ALL if kind not in NEVER_STRIKE and not total.faults[kind]]
    assert not missing or SCHEDULES < 1000, f"never struck: {missing}"
    assert sum(total.faults.values()) >= 20 * SCHEDULES
