"""`python -m tests.sim.mempool 2000`: that many schedules of the mempool; `--seed 7` for one."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.sim.mempool.world import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mempool")
    parser.add_argument("schedules", type=int, nargs="?", default=1_000)
    parser.add_argument("--seed", type=int, help="one schedule")
    options = parser.parse_args()
    seeds = range(options.schedules) if options.seed is None else [options.seed]
    began, struck, sends, broken = time.monotonic(), Counter[str](), 0, 0
    for seed in seeds:
        result = run(seed)
        struck, sends = struck + result.struck, sends + result.sends
        if result.violations:
            broken += 1
            print(f"--seed {seed}: {result.violations[0]}")
    took = time.monotonic() - began
    print(f"mempool: {len(seeds)} schedules in {took:.0f} s, {sends} sends, faults {dict(struck)}")
    print(f"mempool: {broken} schedules broke a promise" if broken else "mempool: every promise held")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
