"""EVM lanes that people pause, resume and decide about, and the seeded bugs that the same schedules must catch."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.sim.evm.operator_mutants import MUTANTS, planted
from tests.sim.evm.operators import run

SCHEDULES = int(os.environ.get("EVM_SCHEDULES", "80"))


def test_operators_rules_hold_and_everything_ends_once_they_have_spoken() -> None:
    struck: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        result = run(seed)
        assert not result.violations, f"seed {seed}: {result.violations[0]}"
        struck += result.struck
    for kind in ("pause", "held", "foreign_use", "kill", "fail", "resign", "track"):
        assert struck[kind], kind


def test_a_schedule_with_operators_replays_step_by_step() -> None:
    assert run(5).digest == run(5).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_each_seeded_bug_of_the_operators_rules_is_caught(name: str) -> None:
    with planted(name):
        assert any(run(seed).violations for seed in range(SCHEDULES)), f"{name} went through unseen"
