"""EVM lanes with monitors through seeded schedules, and the seeded bugs that the same schedules must catch."""

from __future__ import annotations

import os

import pytest

from tests.sim.evm.monitor import run
from tests.sim.evm.monitor_mutants import MUTANTS, planted

SCHEDULES = int(os.environ.get("EVM_SCHEDULES", "60"))
CAUGHT_WITHIN = 150
LIKELY = (6, 3, 0, 2, 7, 54, 61, 86, 120, 302)
"""Schedules that have caught one before: tried first, to save time."""


def test_every_promise_holds_with_monitors_beside():
    broken = {seed: result.violations for seed in range(SCHEDULES) if (result := run(seed)).violations}
    assert not broken


def test_a_schedule_with_monitors_replays_step_by_step():
    assert run(7).digest == run(7).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_each_seeded_bug_of_the_monitor_is_caught(name):
    with planted(name):
        assert any(run(seed).violations for seed in (*LIKELY, *range(CAUGHT_WITHIN))), f"{name} went through unseen"
