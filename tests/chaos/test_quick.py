"""`make chaos QUICK=1`: every kind of fault, on every kind of ledger, and not one broken promise."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.chaos.__main__ import Stage, perform
from tests.chaos.plan import DEATHS, SceneSpec, draw, scenes
from tests.chaos.report import GOALS, Played, Run, page, reached, sort_out
from tests.chaos.scene import Scene
from tests.waiting import until


async def test_no_fault_on_any_ledger_loses_doubles_or_reorders_an_intent() -> None:
    run = Run(0, True, [Played(spec) for spec in scenes(0, quick=True)])
    assert await perform(run, abreast=2)
    assert run.problems == []
    counts = run.counts
    assert {point for point in DEATHS if counts[f"worker kill -9: {point}"]} == set(DEATHS)
    unreached = [name for name, (_, begins) in GOALS.items() if not reached(counts, begins)]
    assert unreached == []
    assert reached(counts, ["quarantined: ledger_rolled_back"]), "a lane that lost its write-ahead is quarantined"
    assert sum(played.accepted for played in run.scenes) > 200


async def test_a_worker_that_sends_before_it_writes_ahead_is_found_out(tmp_path: Path) -> None:
    spec = SceneSpec("hasty", "single", "fsync", 4, {"redis kill -9": 1}, lanes=1, workers=2, limit_s=20, bug="hasty")
    async with Scene(spec, tmp_path) as scene:
        result = await scene.play()
    assert any("before it was written ahead" in words for words in result["violations"])


def test_the_same_seed_draws_the_same_plan_and_another_one_another() -> None:
    first, again, other = (scenes(seed, quick=False)[0] for seed in (1, 1, 2))
    assert draw(first) == draw(again)
    assert draw(first) != draw(other)


def test_a_full_run_is_planned_to_reach_every_goal() -> None:
    planned = scenes(0, quick=False)
    deaths = [point for spec in planned for point, _ in draw(spec).deaths]
    assert len(deaths) >= 1000
    assert min(deaths.count(point) for point in DEATHS) >= 50
    for name, (goal, begins) in GOALS.items():
        if name != "worker kill -9":
            assert sum(reached(spec.troubles, begins) for spec in planned) >= goal, name


def test_the_page_names_what_was_broken() -> None:
    run = Run(7, False, [Played(spec) for spec in scenes(7, quick=False)], command="make chaos SEED=7")
    run.scenes[0].result = {"violations": ["1.000 k1 took effect 2 times", "0.000 k2 was acknowledged and is lost"]}
    written = page(run, "2026-01-01")
    assert "**1 / 1 / 0** lost / duplicated / reordered" in written
    assert "k1 took effect 2 times" in written
    assert "make chaos SEED=7" in written


@pytest.mark.parametrize(
    ("words", "sort"),
    [
        ("3 took effect 2 times on chain", "duplicated"),
        ("k1 was acknowledged and is lost", "lost"),
        ("k2 was signed after k1, which was accepted later", "reordered"),
        ("something nobody thought of", "other"),
    ],
)
def test_a_violation_is_counted_under_its_promise(words: str, sort: str) -> None:
    assert sort_out([words]) == {sort: 1}


async def test_a_run_that_is_stopped_ends_everything_and_says_what_it_reached() -> None:
    run = Run(0, True, [Played(spec) for spec in scenes(0, quick=True)[:1]])
    stage = Stage(run, abreast=1)
    playing = asyncio.create_task(stage.play())
    await until(lambda: run.scenes[0].counts, 60, what="somebody was killed")
    stage.stop()
    await asyncio.wait_for(playing, 30)
    assert run.scenes[0].result is None
    assert run.scenes[0].broke == "was stopped"
