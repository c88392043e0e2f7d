"""The mempool through seeded schedules, and the seeded bugs that the same schedules must catch."""

from __future__ import annotations

import os

import pytest

from tests.sim.mempool.mutants import MUTANTS, planted
from tests.sim.mempool.world import run

SCHEDULES = int(os.environ.get("MEMPOOL_SCHEDULES", "30"))
CAUGHT_WITHIN = 120


def test_every_promise_of_the_mempool_holds():
    broken = {seed: result.violations for seed in range(SCHEDULES) if (result := run(seed)).violations}
    assert not broken


def test_a_schedule_of_the_mempool_replays_step_by_step():
    assert run(8).digest == run(8).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_each_seeded_bug_of_the_mempool_is_caught(name: str):
    with planted(name):
        assert any(run(seed).violations for seed in range(CAUGHT_WITHIN)), f"{name} went through unseen"
