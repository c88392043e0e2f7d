"""Lanes of both chains on signers that are late, away, refuse, fail in the middle and are wrong; and seeded bugs."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.sim import signers as near
from tests.sim.evm import signers as evm
from tests.sim.random_signer import FAULTS
from tests.sim.signer_mutants import MUTANTS

SCHEDULES = int(os.environ.get("SIGNER_SCHEDULES", "80"))


def test_every_promise_holds_on_near_lanes_with_any_signer() -> None:
    struck: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        result = near.run(seed)
        assert not result.violations, f"seed {seed}: {result.violations[0]}"
        struck.update(near.struck())
    assert struck.keys() == set(FAULTS), struck


def test_every_promise_holds_on_evm_lanes_with_any_signer() -> None:
    struck: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        result = evm.run(seed)
        assert not result.violations, f"seed {seed}: {result.violations[0]}"
        struck.update(evm.SignerWorld.last.moods.struck)
    assert struck.keys() == set(FAULTS), struck


def test_a_schedule_with_a_signer_replays_step_by_step() -> None:
    assert near.run(3).digest == near.run(3).digest
    assert evm.run(3).digest == evm.run(3).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_beside_the_signer_is_caught(name: str) -> None:
    with MUTANTS.planted(name):
        caught = (run(seed).violations for seed in range(3 * SCHEDULES) for run in (near.run, evm.run))
        assert any(caught), f"{name} went through unseen"
