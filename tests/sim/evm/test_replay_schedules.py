"""EVM lanes on a chain that goes back past finality: what had ended lands again, once, by the bytes that were kept."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest

from tests.sim.evm.planting import Bugs, Patch
from tests.sim.evm.replays import run
from txmanager.core.flights import Flight
from txmanager.core.models import Purpose
from txmanager.runtime.lane.checks import Checks
from txmanager.runtime.lane.owner import OwnedLane
from txmanager.runtime.lane.requests import Requests

SCHEDULES = int(os.environ.get("EVM_SCHEDULES", "60"))
LIKELY = (1, 10, 14)
"""Schedules that caught one before: tried first, to save time."""

MUTANTS = Bugs()
mutant, planted = MUTANTS.mutant, MUTANTS.planted


@mutant
def final_bytes_are_not_kept() -> Sequence[Patch]:
    async def keep(self: OwnedLane, landed: Any) -> None:
        return None

    return [patch.object(OwnedLane, "keep", keep)]


@mutant
def the_bytes_of_no_ops_are_not_kept() -> Sequence[Patch]:
    sound = Flight.final.fget  # type: ignore[attr-defined]

    def effects(self: Flight) -> list[Any]:
        noops = {a.hash for a in self.record.attempts if a.purpose is Purpose.NOOP}
        return [one for one in sound(self) if one.hash not in noops]

    return [patch.object(Flight, "final", property(effects))]


@mutant
def a_new_owner_knows_nothing_of_what_was_final() -> Sequence[Patch]:
    """It never sees that the chain went back, and what it signs waits for ever."""

    async def before(self: Checks, since: int) -> tuple[int, int]:
        return -1, -1

    return [patch.object(Checks, "_before", before)]


@mutant
def a_monitors_word_is_not_followed() -> Sequence[Patch]:
    async def compare(self: Requests, check: Any) -> None:
        return None

    return [patch.object(Requests, "_compare", compare)]


def test_what_a_rollback_past_finality_undid_lands_again_once() -> None:
    struck: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        result = run(seed)
        assert not result.violations, f"seed {seed}: {result.violations[0]}"
        struck += result.struck
    assert struck["landed_again"] > SCHEDULES // 2, struck
    assert struck["unkept"] < SCHEDULES // 5, struck


def test_a_schedule_with_a_replay_replays_step_by_step() -> None:
    assert run(1).digest == run(1).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_each_seeded_bug_of_a_replay_is_caught(name: str) -> None:
    with planted(name):
        assert any(run(seed).violations for seed in (*LIKELY, *range(150))), f"{name} went through unseen"
