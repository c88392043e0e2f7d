"""`python -m tests.sim.evm 2000`: that many schedules of EVM lanes, half of them with monitors beside; one seed alone
prints its history (`--monitor`: of the world with monitors)."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.sim.evm import monitor, world


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.evm")
    parser.add_argument("schedules", type=int, nargs="?", default=2_000)
    parser.add_argument("--seed", type=int, help="one schedule, with everything that happened")
    parser.add_argument("--monitor", action="store_true", help="... in the world with monitors")
    options = parser.parse_args()
    if options.seed is not None:
        result = (monitor if options.monitor else world).run(options.seed, verbose=True)
        print("\n".join([*(result.lines or ()), *result.violations]))
        return bool(result.violations)
    began, ends, struck, broken = time.monotonic(), Counter[str](), Counter[str](), 0
    for seed in range(options.schedules):
        # Each seed is two schedules: one without monitors, one with them.
        result = (monitor if seed % 2 else world).run(seed // 2)
        ends, struck = ends + result.ends, struck + result.struck
        if result.violations:
            broken += 1
            print(f"seed {seed // 2}{' --monitor' if seed % 2 else ''}: {result.violations[0]}")
    took = time.monotonic() - began
    print(f"evm: {options.schedules} schedules in {took:.0f} s, {sum(struck.values())} faults, ends {dict(ends)}")
    print(f"evm: {broken} schedules broke a promise" if broken else "evm: every promise held")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
