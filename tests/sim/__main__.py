"""`python -m tests.sim`: many schedules, one schedule again, or the mutants.

Exit codes: 0 every promise held (and every mutant was caught, and a full run met every cell), 1 one did not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.sim.coverage import holes, table
from tests.sim.plan import draw
from tests.sim.results import join, publish_run, speed
from tests.sim.runner import Progress, Total, run_many

SCHEDULES = 100_000
"""A full run: every cell of the table that can be met must be."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help=f"how many (default {SCHEDULES})")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, help="run this one schedule and print all that happens in it")
    parser.add_argument("--mutants", nargs="?", const="all", help="seed bugs, all or the named one, and catch them")
    parser.add_argument("--seeds", type=int, default=5_000, help="how many schedules each mutant gets")
    parser.add_argument("--save", type=Path, help="keep what was found so far in this file, as JSON")
    parser.add_argument("--publish", action="store_true", help="write the results into docs/simulation.md")
    parser.add_argument("--join", type=Path, nargs="+", help="no run: add up what runs of one commit have saved")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    told = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of a set of strings is part of a schedule.
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"}
        )
    if told.mutants:
        from tests.sim.hunt import hunt_all

        return hunt_all(
            None if told.mutants == "all" else told.mutants, told.seeds, told.processes, publish=told.publish
        )
    if told.seed is not None:
        return replay(told.seed)
    if told.join:
        parts = join(told.join)
        return conclude(parts.total, parts.first, parts.seconds, of=parts.commit, publish=told.publish)
    progress, started = Progress(told.first, told.save), time.monotonic()
    total = run_many(told.first, told.schedules, processes=told.processes, progress=progress)
    seconds = time.monotonic() - started
    progress(total, seconds, last=True)
    print(file=sys.stderr)
    return conclude(total, told.first, seconds, publish=told.publish)


def conclude(total: Total, first: int, seconds: float, *, of: str | None = None, publish: bool) -> int:
    print(table(total))
    print(speed(total, seconds))
    if publish:
        publish_run(total, first, seconds, of=of)
    if total.failures:
        explain(total)
        return 1
    print("0 lost, 0 duplicated, 0 reordered: every promise held")
    if total.schedules >= SCHEDULES and (missed := holes(total)):
        print(f"BUT {len(missed)} CELLS THAT CAN BE MET WERE NOT: what these schedules prove of them is nothing")
        return 1
    return 0


def replay(seed: int) -> int:
    from tests.sim.world import run

    result = run(draw(seed), verbose=True)
    print("\n".join(result.lines or []))
    for violation in result.violations:
        print(f"BROKEN: {violation}")
    return 1 if result.violations else 0


def explain(total: Total) -> None:
    from tests.sim.shrink import shrink, story

    seed = min(total.failures)
    print(f"seed {seed} breaks a promise; again with: make sim SEED={seed}")
    for violation in total.failures[seed][:5]:
        print(f"  {violation}")
    print("shrunk to:")
    print(story(shrink(draw(seed))))


if __name__ == "__main__":
    sys.exit(main())
