"""Hunts the seeded bugs: each gets schedules until one of them breaks a promise."""

from __future__ import annotations

import gc
import multiprocessing
import time
from dataclasses import dataclass

from tests.sim.plan import draw
from tests.sim.results import publish_mutants


@dataclass(frozen=True, slots=True)
class Catch:
    name: str
    seeds: int
    """How many schedules it took."""
    seconds: float
    violation: str | None
    by_story: bool = False

    @property
    def caught(self) -> bool:
        return self.violation is not None


def hunt(name: str, seeds: int, seconds: float = float("inf"), first: int = 0) -> Catch:
    from tests.sim.mutants import MUTANTS
    from tests.sim.stories import STORIES, tell
    from tests.sim.world import run

    started = time.process_time()  # its own work: a busy machine does not make a mutant harder to catch
    spent = 0
    with MUTANTS[name].planted():
        for story in STORIES.get(name, ()):
            if violations := tell(story)[0]:
                return Catch(name, 0, time.process_time() - started, violations[0], True)
        for seed in range(first, first + seeds):
            result = run(draw(seed))
            spent += 1
            if spent % 25 == 0:
                gc.collect()
            if result.violations:
                return Catch(name, spent, time.process_time() - started, result.violations[0])
            if time.process_time() - started > seconds:
                break
    return Catch(name, spent, time.process_time() - started, None)


def _hunt(told: tuple[str, int]) -> Catch:
    return hunt(*told)


def hunt_all(only: str | None, seeds: int, processes: int, *, publish: bool = False) -> int:
    from tests.sim.mutants import MUTANTS

    names = [only] if only else list(MUTANTS)
    catches: dict[str, Catch] = {}
    with multiprocessing.get_context("spawn").Pool(min(processes, len(names))) as pool:
        for catch in pool.imap_unordered(_hunt, [(name, seeds) for name in names]):
            told = f"caught after {catch.seeds}" if catch.caught else f"NOT CAUGHT in {catch.seeds}"
            told = "caught by its story" if catch.by_story else told
            catches[catch.name] = catch
            print(f"{catch.name:36} {told:20} {catch.seconds:6.1f} s  {catch.violation or ''}", flush=True)
    missed = sum(not catch.caught for catch in catches.values())
    if publish:
        publish_mutants([(MUTANTS[name].mistake, catches[name]) for name in names], seeds)
    print(f"{len(names) - missed} of {len(names)} mutants caught")
    return 1 if missed else 0
