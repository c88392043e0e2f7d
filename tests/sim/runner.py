"""Runs many schedules on several processes, adds up what struck where, and stops at the first broken promise."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.sim.plan import draw

_CHUNK = 20


@dataclass(slots=True)
class Total:
    schedules: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    virtual_s: float = 0.0
    failures: dict[int, list[str]] = field(default_factory=dict)
    """Broken promises, by seed."""

    def add(self, other: Total) -> None:
        self.schedules += other.schedules
        self.faults += other.faults
        self.cells += other.cells
        self.ends += other.ends
        self.steps += other.steps
        self.virtual_s += other.virtual_s
        self.failures.update(other.failures)


def run_seeds(seeds: Iterable[int]) -> Total:
    from tests.sim.world import run  # keys are made and near-kit is imported once per process

    total = Total()
    gc.disable()
    gc.freeze()  # what was imported stays: a collection looks at schedules only
    for seed in seeds:
        result = run(draw(seed))
        total.schedules += 1
        total.faults.update(kind for _, kind, _, _ in result.struck)
        total.cells += result.cells
        total.ends += result.ends
        total.steps += result.steps
        total.virtual_s += result.virtual_s
        if result.violations:
            total.failures[seed] = result.violations
    gc.collect()
    return total


def run_many(
    first: int, count: int, *, processes: int = 2, stop_after: int = 1, progress: Callable[[Total, float], None]
) -> Total:
    """Schedules `first` to `first + count - 1`; ends early after `stop_after` failures."""
    total, started = Total(), time.monotonic()
    chunks = [range(at, min(at + _CHUNK, first + count)) for at in range(first, first + count, _CHUNK)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for part in pool.imap_unordered(run_seeds, chunks):
            total.add(part)
            progress(total, time.monotonic() - started)
            if len(total.failures) >= stop_after:
                pool.terminate()
                break
    return total


def progress_line(total: Total, seconds: float) -> None:
    rate = total.schedules / max(seconds, 1e-9)
    line = f"{total.schedules} schedules, {sum(total.faults.values())} faults, {len(total.failures)} failed, "
    print(f"\r{line}{rate:.0f}/s, {total.virtual_s / 3600:.1f} h simulated", end="", file=sys.stderr, flush=True)
