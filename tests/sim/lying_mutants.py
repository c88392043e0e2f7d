"""Seeded bugs of the agreement: each believes one node where two must say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from tests.sim.evm.planting import Bugs, Patch
from txmanager.chains.agreement import Agreement
from txmanager.core.chain import NonceView, Readings, Sighting

MUTANTS = Bugs()
mutant = MUTANTS.mutant


@mutant
def a_failure_on_one_word() -> Sequence[Patch]:
    async def look_up(self: Agreement, own: Any, lane: str, attempts: Any) -> Any:
        return await own(lane, attempts)

    return [patch.object(Agreement, "look_up", look_up)]


@mutant
def the_first_answer_wins_a_dispute() -> Sequence[Patch]:
    def weigh(self: Agreement, first: Sighting, words: Any, absent: Any) -> Sighting:
        return first

    return [patch.object(Agreement, "_weigh", weigh)]


@mutant
def a_death_on_one_word() -> Sequence[Patch]:
    async def prove_dead(self: Agreement, own: Any, lane: str, attempts: Any) -> Any:
        return await own(lane, attempts)

    return [patch.object(Agreement, "prove_dead", prove_dead)]


@mutant
def a_refusal_before_signing_on_one_word() -> Sequence[Patch]:
    async def prepare(self: Agreement, own: Any, lane: str, intents: Any) -> Any:
        return await own(lane, intents)

    return [patch.object(Agreement, "prepare", prepare)]


@mutant
def a_lane_stopped_on_one_word() -> Sequence[Patch]:
    async def readings(self: Agreement, lane: str, first: NonceView) -> Readings:
        return Readings({"node": first})

    return [patch.object(Agreement, "readings", readings)]
