"""Runs many schedules on several processes, adds up what struck where, and stops at the first broken promise."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.sim.plan import draw
from tests.sim.results import save

_CHUNK = 20


@dataclass(slots=True)
class Total:
    schedules: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    virtual_s: float = 0.0
    processor_s: float = 0.0
    """User and system time that the schedules took, on all cores together."""
    failures: dict[int, list[str]] = field(default_factory=dict)
    """Broken promises, by seed."""

    def add(self, other: Total) -> None:
        self.schedules += other.schedules
        self.faults += other.faults
        self.cells += other.cells
        self.ends += other.ends
        self.steps += other.steps
        self.virtual_s += other.virtual_s
        self.processor_s += other.processor_s
        self.failures.update(other.failures)


def run_seeds(seeds: Iterable[int]) -> Total:
    from tests.sim.world import run  # keys are made and near-kit is imported once per process

    total, started = Total(), time.process_time()
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
    total.processor_s = time.process_time() - started
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


class Progress:
    """A line that moves on a terminal; in a log file a line each half minute. Results go to `save` as well."""

    def __init__(self, first: int, save: Path | None = None) -> None:
        self._first, self._save, self._next = first, save, 0.0

    def __call__(self, total: Total, seconds: float, *, last: bool = False) -> None:
        due = last or seconds >= self._next
        if due:
            self._next = seconds + 30.0
            if self._save is not None:
                save(self._save, total, self._first, seconds)
        moving = sys.stderr.isatty()
        if due or moving:
            rate = total.schedules / max(total.processor_s, 1e-9)
            line = f"{total.schedules} schedules, {sum(total.faults.values())} faults, {len(total.failures)} failed, "
            line += f"{rate:.0f} per core-second, {total.virtual_s / 3600:.1f} h simulated"
            print(f"\r{line}" if moving else line, end="" if moving else "\n", file=sys.stderr, flush=True)
