"""The plan is asked again right before write-ahead. It is the only reason why a schedule may go another way with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from tests.sim.plan import draw
from tests.sim.world import run
from txmanager.runtime.lane.outbox import Outbox

SEEDS = range(40)
ASKED = Outbox.write_ahead


def test_a_schedule_changes_only_where_the_plan_took_its_word_back() -> None:
    took_back: list[int] = []

    for seed in SEEDS:
        refused: list[Any] = []

        async def noting(self: Outbox, writes: Sequence[Any], *, allowed: bool, refused: list[Any] = refused) -> bool:
            refused += [] if allowed else writes
            return await ASKED(self, writes, allowed=allowed)

        async def never_asked(self: Outbox, writes: Sequence[Any], *, allowed: bool) -> bool:
            return await ASKED(self, writes, allowed=True)

        with patch.object(Outbox, "write_ahead", noting):
            with_it = run(draw(seed))
        with patch.object(Outbox, "write_ahead", never_asked):
            without = run(draw(seed))
        assert (with_it.violations, without.violations) == ([], [])
        if with_it.digest != without.digest:
            assert refused, f"seed {seed} goes another way, and the plan took nothing back"
            took_back.append(seed)
    assert took_back, "in none of these schedules did anything change while something was signed"
