"""EVM lanes on a ledger that fails over or forgets, with clocks that jump, and seeded bugs that these must catch."""

from __future__ import annotations

import os

import pytest

from tests.sim.evm.unreliable import run
from tests.sim.mutants import MUTANTS

SCHEDULES = int(os.environ.get("EVM_SCHEDULES", "60"))


def test_every_promise_holds_on_a_ledger_that_fails_over_or_forgets() -> None:
    struck = {"failover": 0, "roll_back": 0, "worker_clock_jump": 0, "server_clock_jump": 0}
    for seed in range(SCHEDULES):
        result = run(seed)
        assert not result.violations, f"seed {seed}: {result.violations[0]}"
        for kind in struck:
            struck[kind] += result.struck[kind]
    assert all(struck.values()), struck


def test_a_schedule_on_an_unreliable_ledger_replays_step_by_step() -> None:
    assert run(3).digest == run(3).digest


@pytest.mark.parametrize("name", ["wait_after_a_replay_that_wrote_nothing", "resign_after_a_roll_back"])
def test_a_bug_that_only_a_failing_ledger_shows_is_caught_on_evm_lanes_too(name: str) -> None:
    with MUTANTS[name].planted():
        assert any(run(seed).violations for seed in range(SCHEDULES)), f"{name} went through unseen"
