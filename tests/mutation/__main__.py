"""`make mutation`: the score of each module, and every mistake that its tests did not notice.

`--changed BASE` tries only lines that differ from that commit. `--clean` tries the modules of modules.toml that are
called clean. Both stop after `--budget` seconds and say how many mistakes were not tried.
Exit code 1: a clean module has a survivor that explained.toml does not explain, or an explanation of what is caught.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutation.judge import Judge, judge
from tests.mutation.mistakes import Mistake, mistakes

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent
MODULES: dict[str, dict[str, Any]] = tomllib.loads((HERE / "modules.toml").read_text())
EXPLAINED: dict[str, dict[str, str]] = tomllib.loads((HERE / "explained.toml").read_text())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", help="files below txmanager/ (default: all of modules.toml)")
    parser.add_argument("--clean", action="store_true", help="all modules that are called clean")
    parser.add_argument("--changed", metavar="BASE", help="only the lines that differ from this commit")
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds for all modules together")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0, help="which sample of the sampled modules is drawn")
    parser.add_argument("--table", action="store_true", help="end with the rows of docs/mutation.md")
    options = parser.parse_args()
    rows, failures, skipped, until = [], 0, 0, time.monotonic() + options.budget
    names = options.modules or [name for name, one in MODULES.items() if one.get("clean") or not options.clean]
    for number, name in enumerate(names):
        # What a module does not need of its share is there for those after it.
        done = run(name, options, (until - time.monotonic()) / (len(names) - number))
        if done is None:
            continue
        judged, tried, left = done
        skipped += left
        verdict = judged.verdict
        known, clean = EXPLAINED.get(name, {}), MODULES[name].get("clean", False)
        missed = sorted([*verdict.survived, *verdict.untested], key=lambda mistake: mistake.line)
        open_ones = [m for m in missed if m.name not in known]
        whole = not (options.changed or left or "sample" in MODULES[name])
        stale = sorted(known.keys() - {m.name for m in missed}) if whole else []
        failures += (len(open_ones) + len(stale)) * clean
        score = len(verdict.caught) / max(1, tried)
        explained = len(missed) - len(open_ones)
        print(f"{name}: {len(verdict.caught)} of {tried} caught ({score:.0%}), {explained} explained", flush=True)
        for mistake in open_ones:
            print(f"  not caught: line {mistake.line} {mistake.name}", flush=True)
        for label in stale:
            print(f"  explained, but there is no such survivor: {label}", flush=True)
        if judged.broken:
            print(f"  left out, they fail by themselves: {', '.join(judged.broken)}", flush=True)
        if left:
            print(f"  {left} were not tried: the budget is spent", flush=True)
        rows.append(f"| `{name}` | {tried} | {len(verdict.caught)} | {score:.0%} | {explained} | {len(open_ones)} |")
    if options.table:
        print("\n".join(rows))
    if skipped:
        print(f"{skipped} mistakes were not tried: the budget of {options.budget:.0f} s is spent")
    print(f"{failures} not caught and not explained in modules that are called clean")
    return 1 if failures else 0


def run(name: str, options: argparse.Namespace, budget_s: float) -> tuple[Judge, int, int] | None:
    settings = MODULES[name]
    path = ROOT / "txmanager" / name
    module = importlib.import_module("txmanager." + name.removesuffix(".py").replace("/", "."))
    assert module.__file__ is not None
    found = list(mistakes(path.read_text(), module.__file__))
    if options.changed:
        found = touched(found, changed_lines(options.changed, path))
    elif sample := settings.get("sample"):
        found = random.Random(options.seed).sample(found, min(sample, len(found)))
    if not found:
        return None
    # A budget that ends early leaves out some of each function, not the end of the file.
    random.Random(options.seed).shuffle(found)
    judged = judge(module, found, settings["tests"], processes=options.processes, budget_s=budget_s)
    return judged, len(found) - judged.verdict.left_out, judged.verdict.left_out


def changed_lines(base: str, path: Path) -> set[int]:
    diff = subprocess.run(
        ["git", "diff", "--unified=0", base, "--", str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    lines: set[int] = set()
    for start, count in re.findall(r"^@@ [^+]*\+(\d+)(?:,(\d+))? @@", diff, re.MULTILINE):
        lines.update(range(int(start), int(start) + int(count or 1)))
    return lines


def touched(found: Sequence[Mistake], lines: set[int]) -> list[Mistake]:
    return [mistake for mistake in found if mistake.line in lines]


if __name__ == "__main__":
    sys.exit(main())
