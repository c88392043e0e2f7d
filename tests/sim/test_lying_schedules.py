"""NEAR lanes with a node that lies, and seeded bugs that believe it."""

from __future__ import annotations

import os

import pytest

from tests.sim.lying import lies_told, run
from tests.sim.lying_mutants import MUTANTS

SCHEDULES = int(os.environ.get("LYING_SCHEDULES", "100"))
QUIET = "a_refusal_before_signing_on_one_word"
"""No key of these lanes is limited and no intent is a delegate: nodes refuse nothing before signing here."""


def test_every_promise_holds_against_a_node_that_lies() -> None:
    told = 0
    for seed in range(SCHEDULES):
        result = run(seed)
        assert not result.violations, f"seed {seed}: {result.violations[0]}"
        told += lies_told()
    assert told > SCHEDULES


def test_a_schedule_with_a_liar_replays_step_by_step() -> None:
    assert run(3).digest == run(3).digest


@pytest.mark.parametrize("name", [name for name in MUTANTS if name != QUIET])
def test_a_bug_that_believes_one_node_is_caught(name: str) -> None:
    with MUTANTS.planted(name):
        # Some bugs show in one schedule of two hundred; the first that shows one ends the hunt.
        assert any(run(seed).violations for seed in range(4 * SCHEDULES)), f"{name} went through unseen"
