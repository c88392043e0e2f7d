"""Keyless lanes through seeded schedules, and the seeded bugs that the same schedules must catch."""

from __future__ import annotations

import os

import pytest

from tests.sim.evm.reservation_mutants import MUTANTS, planted
from tests.sim.evm.reservations import run

SCHEDULES = int(os.environ.get("EVM_SCHEDULES", "60"))
CAUGHT_WITHIN = 150


def test_every_promise_holds_when_callers_sign_themselves():
    broken = {seed: result.violations for seed in range(SCHEDULES) if (result := run(seed)).violations}
    assert not broken


def test_a_schedule_of_callers_replays_step_by_step():
    assert run(7).digest == run(7).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_each_seeded_bug_of_the_nonce_service_is_caught(name):
    with planted(name):
        assert any(run(seed).violations for seed in range(CAUGHT_WITHIN)), f"{name} went through unseen"
