"""`make chaos`: 200 workers killed with -9 at named points (or `make chaos KILLS=1000 SEED=7`), and a table."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from tests.chaos.arena import Arena, kill
from tests.chaos.victim import POINTS
from tests.servers.processes import make_folder, remove_folder


def progress(done: int, kills: int, intents: int) -> None:
    print(f"\r{done:>5} of {kills} killed, {intents} intents accepted", end="", file=sys.stderr, flush=True)


async def main(kills: int, seed: int, lanes: int, folder: Path) -> int:
    began = time.monotonic()
    async with Arena(folder, lanes=lanes) as arena:
        done = await kill(arena, kills, seed=seed, report=progress)
        print(file=sys.stderr)
        verdict = await arena.verdict()
    width = max(map(len, POINTS))
    print(f"{'killed':<{width}}  times")
    for point in POINTS:
        print(f"{point:<{width}}  {done[point]:>5}")
    took = time.monotonic() - began
    print(f"{'all':<{width}}  {sum(done.values()):>5}   seed {seed}, {lanes} lanes, {took:.0f} s")
    print(
        f"{verdict.intents} intents, {verdict.intents - len(verdict.problems)} paid exactly once and replayed equal, "
        f"{verdict.resigned} signed again after a proof of death"
    )
    for problem in verdict.problems:
        print(f"PROBLEM {problem}")
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=2)
    told = parser.parse_args()
    logs = make_folder("chaos")
    try:
        sys.exit(asyncio.run(main(told.kills, told.seed, told.lanes, logs)))
    finally:
        remove_folder(logs)
