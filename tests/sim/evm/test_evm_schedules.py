"""EVM lanes through seeded schedules, and the seeded bugs that the same schedules must catch."""

from __future__ import annotations

import os

import pytest

from tests.sim.evm.mutants import MUTANTS, planted
from tests.sim.evm.world import run

SCHEDULES = int(os.environ.get("EVM_SCHEDULES", "80"))
CAUGHT_WITHIN = 150
LIKELY = (0, 14, 26, 47, 50, 94, 104)
"""Schedules that have caught one before: tried first, to save time."""


def test_every_promise_holds_on_every_schedule():
    broken = {seed: result.violations for seed in range(SCHEDULES) if (result := run(seed)).violations}
    assert not broken


def test_a_schedule_replays_step_by_step():
    assert run(7).digest == run(7).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_each_seeded_bug_is_caught(name):
    with planted(name):
        assert any(run(seed).violations for seed in (*LIKELY, *range(CAUGHT_WITHIN))), f"{name} went through unseen"
