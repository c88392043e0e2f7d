"""kill -9 at every named point of a worker: one effect per intent, equal answers to retries. `make chaos` does more."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.arena import Arena, kill
from tests.chaos.victim import POINTS

KILLS = 21


async def test_a_worker_killed_at_every_named_point_never_pays_twice_and_loses_nothing(tmp_path: Path) -> None:
    async with Arena(tmp_path) as arena:
        done = await kill(arena, KILLS)
        assert set(done) == set(POINTS)
        verdict = await arena.verdict()
    assert verdict.problems == []
    assert verdict.intents >= KILLS
