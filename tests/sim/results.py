"""What a run found, on disk while it goes on, and published in docs/simulation.md when it is over.

A block of the page between two markers belongs to this module; people write around it.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.sim.coverage import UNREACHABLE, holes, table

if TYPE_CHECKING:
    from tests.sim.hunt import Catch
    from tests.sim.runner import Total

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"


def commit() -> str:
    """The commit these results are of; a changed tree says so."""
    here = Path(__file__).parent

    def git(*told: str) -> str:
        return subprocess.run(["git", *told], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=10", "HEAD") + (
            "+" if git("status", "--porcelain", "--", "..", ":!*.md") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def save(path: Path, total: Total, first: int, seconds: float) -> None:
    """Written at every step of a run: what is there when it ends early is still worth something."""
    told = {
        "commit": commit(),
        "python": platform.python_version(),
        "first": first,
        "schedules": total.schedules,
        "faults": sum(total.faults.values()),
        "by_kind": dict(total.faults),
        "cells": {f"{kind} {state}": count for (kind, state), count in sorted(total.cells.items())},
        "never_met": [f"{kind} {state}" for kind, state in holes(total)],
        "ends": dict(total.ends),
        "virtual_hours": round(total.virtual_s / 3600, 1),
        "elapsed_s": round(seconds, 1),
        "processor_s": round(total.processor_s, 1),
        "failures": {str(seed): found[:5] for seed, found in total.failures.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(told, indent=1))
    partial.replace(path)


@dataclass(frozen=True, slots=True)
class Parts:
    """Runs that were saved apart, of one commit and of seeds that follow each other: one run."""

    total: Total
    commit: str
    first: int
    seconds: float


def join(paths: Sequence[Path]) -> Parts:
    from tests.sim.runner import Total

    parts = sorted((json.loads(path.read_text()) for path in paths), key=lambda part: int(part["first"]))
    commits = {part["commit"] for part in parts}
    if len(commits) != 1:
        raise SystemExit(f"these are runs of different commits: {', '.join(sorted(commits))}")
    total, upto = Total(), parts[0]["first"]
    for part in parts:
        if part["first"] != upto:
            raise SystemExit(f"seeds {upto} to {part['first'] - 1} are missing, or some were run twice")
        upto += part["schedules"]
        cells = {tuple(cell.split(" ")): count for cell, count in part["cells"].items()}
        total.add(
            Total(
                schedules=part["schedules"],
                faults=Counter(part["by_kind"]),
                cells=Counter(cells),
                ends=Counter(part["ends"]),
                virtual_s=part["virtual_hours"] * 3600,
                processor_s=part["processor_s"],
                failures={int(seed): found for seed, found in part["failures"].items()},
            )
        )
    return Parts(total, commits.pop(), parts[0]["first"], sum(part["elapsed_s"] for part in parts))


def speed(total: Total, seconds: float) -> str:
    """Elapsed time says how busy the machine was, processor time what the work costs."""
    rate = total.schedules / max(total.processor_s, 1e-9)
    return (
        f"{seconds / 60:.1f} minutes elapsed, {total.processor_s / 60:.1f} processor minutes (user and system), "
        f"{rate:.1f} schedules per core-second"
    )


def publish_run(total: Total, first: int, seconds: float, page: Path = PAGE, of: str | None = None) -> None:
    broken = len(total.failures)
    verdict = f"{broken} schedules broke a promise" if broken else "0 lost, 0 duplicated, 0 reordered"
    quiet = total.processor_s / 2 / 60
    upto = first + total.schedules - 1
    lines = [
        f"- Commit `{of or commit()}`, Python {platform.python_version()}, seeds {first} to {upto}.",
        f"- {total.schedules:,} schedules, {sum(total.faults.values()):,} faults "
        f"({sum(total.faults.values()) / max(1, total.schedules):.1f} in each), "
        f"{total.virtual_s / 3600:,.0f} simulated hours: **{verdict}**.",
        f"- {speed(total, seconds)}: {quiet:.0f} minutes on two cores that do nothing else.",
        f"- Cells that could be met and were not: {', '.join(f'{k} x {s}' for k, s in holes(total)) or 'none'}. "
        f"Cells that cannot: {'; '.join(f'{k} x {s} ({why})' for (k, s), why in UNREACHABLE.items())}.",
        "",
        "```",
        table(total),
        "```",
    ]
    write_block("run", lines, page)


def publish_mutants(catches: Sequence[tuple[str, Catch]], seeds: int, page: Path = PAGE) -> None:
    """`catches`: what is wrong, and how it was caught."""
    caught = sum(catch.caught for _, catch in catches)
    lines = [
        f"{caught} of {len(catches)} caught at commit `{commit()}`; each had up to {seeds:,} seeds, from 0 on.",
        "",
        "| bug | what is wrong | schedules |",
        "|---|---|---|",
    ]
    for mistake, catch in catches:
        told = "**not caught**" if not catch.caught else "story" if catch.by_story else str(catch.seeds)
        lines.append(f"| `{catch.name}` | {mistake} | {told} |")
    write_block("mutants", lines, page)


def write_block(name: str, lines: Sequence[str], page: Path = PAGE) -> None:
    begin, end = f"<!-- {name}: written by the tool -->", f"<!-- /{name} -->"
    text = page.read_text()
    before, _, rest = text.partition(begin)
    _, marker, after = rest.partition(end)
    if not marker:
        raise SystemExit(f"{page} has no block {begin} ... {end}")
    page.write_text("\n".join([before + begin, *lines, end + after]))
