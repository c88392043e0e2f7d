"""`python -m tests.sim.evm 2000`: that many schedules of EVM lanes, a sixth of them with monitors beside, a sixth
with callers who sign themselves, a sixth on an unreliable ledger, one with a node that lies, one on a chain that
goes back past finality; a single seed prints its history (`--world`)."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.sim.evm import lying, monitor, replays, reservations, unreliable, world

WORLDS = {
    "plain": world,
    "monitor": monitor,
    "reservations": reservations,
    "unreliable": unreliable,
    "lying": lying,
    "replays": replays,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.evm")
    parser.add_argument("schedules", type=int, nargs="?", default=2_000)
    parser.add_argument("--seed", type=int, help="one schedule, with everything that happened")
    parser.add_argument("--world", choices=WORLDS, default="plain", help="... in that world")
    options = parser.parse_args()
    if options.seed is not None:
        result = WORLDS[options.world].run(options.seed, verbose=True)
        print("\n".join([*(result.lines or ()), *result.violations]))
        return bool(result.violations)
    began, ends, struck, broken = time.monotonic(), Counter[str](), Counter[str](), 0
    for seed in range(options.schedules):
        # Each seed is as many schedules as there are worlds, one in each.
        name = list(WORLDS)[seed % len(WORLDS)]
        result = WORLDS[name].run(seed // len(WORLDS))
        ends, struck = ends + result.ends, struck + result.struck
        if result.violations:
            broken += 1
            print(f"--seed {seed // len(WORLDS)} --world {name}: {result.violations[0]}")
    took = time.monotonic() - began
    print(f"evm: {options.schedules} schedules in {took:.0f} s, {sum(struck.values())} faults, ends {dict(ends)}")
    print(f"evm: {broken} schedules broke a promise" if broken else "evm: every promise held")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
