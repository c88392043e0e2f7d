"""What a run comes to: the goals, every fault by scene, every scene by its promises; docs/reliability.md in full."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.plan import SceneSpec

ROOT = Path(__file__).parent.parent.parent

GOALS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "worker kill -9": (1000, ("worker kill -9",)),
    "redis kill -9": (200, ("redis kill -9",)),
    "workerd kill -9": (100, ("workerd kill -9",)),
    "failovers": (60, ("failover",)),
    "failovers that lost the last writes": (20, ("failover, last writes lost",)),
    "partitions": (200, ("partition",)),
    "slot migrations": (20, ("slot migrated",)),
    "signer kill -9": (50, ("signer kill -9",)),
}
"""What `make chaos` is to reach, and which counters make it up, by how they begin."""

_SORTS = {
    "duplicated": ("took effect", "by a replay", "second first attempt", "queued twice", "ended twice", "proven dead"),
    "lost": ("is lost", "is still", "never accepted"),
    "reordered": ("accepted later", "after a higher nonce", "window 1"),
}


@dataclass
class Played:
    """A scene and what came of it."""

    spec: SceneSpec
    counts: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    result: dict[str, Any] | None = None
    broke: str = ""

    @property
    def violations(self) -> list[str]:
        found = list(self.result["violations"]) if self.result else []
        return [*found, *([self.broke] if self.broke else [])]


@dataclass
class Run:
    seed: int
    quick: bool
    scenes: list[Played]
    took_s: float = 0.0
    processor_s: float = 0.0
    load_before: float = 0.0
    command: str = "make chaos"

    @property
    def counts(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for scene in self.scenes:
            total.update(scene.counts)
        return total

    @property
    def problems(self) -> list[str]:
        return [f"{scene.spec.name}: {words}" for scene in self.scenes for words in scene.violations]

    @property
    def shown(self) -> list[str]:
        """The first few of each scene: one cause has many consequences."""
        return [f"{scene.spec.name}: {words[:1000]}" for scene in self.scenes for words in scene.violations[:20]]


def reached(counts: Mapping[str, int], begins: Iterable[str]) -> int:
    return sum(count for kind, count in counts.items() if kind.startswith(tuple(begins)))


def sort_out(violations: Sequence[str]) -> Counter[str]:
    """How many of each sort; what fits none is `other`."""
    sorts: Counter[str] = Counter()
    for words in violations:
        sorts[next((sort for sort, marks in _SORTS.items() if any(m in words for m in marks)), "other")] += 1
    return sorts


def progress(run: Run) -> str:
    counts = run.counts
    told = [f"{name} {reached(counts, begins)}/{_planned(run, begins)}" for name, (_, begins) in GOALS.items()]
    told.append(f"{sum(scene.accepted for scene in run.scenes)} intents accepted")
    told.append(f"{sum(scene.result is not None for scene in run.scenes)}/{len(run.scenes)} scenes judged")
    return " · ".join(told)


def _planned(run: Run, begins: tuple[str, ...]) -> int:
    total = sum(reached(scene.spec.troubles, begins) for scene in run.scenes)
    return total + (sum(scene.spec.deaths for scene in run.scenes) if begins == ("worker kill -9",) else 0)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def goals(run: Run) -> str:
    counts = run.counts
    rows = [(name, goal, reached(counts, begins)) for name, (goal, begins) in GOALS.items()]
    return _table(("fault", "goal", "reached"), rows)


def faults(run: Run) -> str:
    kinds = sorted(kind for kind, count in run.counts.items() if count)
    rows = [(kind, *(scene.counts[kind] or "" for scene in run.scenes), run.counts[kind]) for kind in kinds]
    return _table(("fault", *(scene.spec.name for scene in run.scenes), "all"), rows)


def promises(run: Run) -> str:
    head = ["scene", "server", "durability", "accepted", "on chain", "final", "held", "lanes quarantined"]
    head += ["duplicated", "lost", "reordered", "other", "retries", "refused", "signed again", "seconds"]
    rows = []
    for scene in run.scenes:
        told = scene.result or {}
        sorts = sort_out(scene.violations)
        first = (scene.spec.name, told.get("server", ""), scene.spec.durability, scene.accepted)
        ends = tuple(told.get(name, "") for name in ("unique", "final", "held", "quarantined"))
        wrong = tuple(sorts[name] for name in ("duplicated", "lost", "reordered", "other"))
        rest = tuple(told.get(name, "") for name in ("retries", "refused", "resigned", "took_s"))
        rows.append((*first, *ends, *wrong, *rest))
    return _table(head, rows)


def machine() -> str:
    model = next(
        (line.partition(":")[2].strip() for line in _read("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model}), {system}"


def _read(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = " with local changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return f"{git('rev-parse', '--short=12', 'HEAD') or 'unknown'} of {git('log', '-1', '--format=%cs')}{changed}"


def page(run: Run, day: str) -> str:
    """docs/reliability.md, all of it."""
    sorts = sort_out(run.problems)
    wrong = " / ".join(str(sorts[name]) for name in ("lost", "duplicated", "reordered"))
    problems = "\n".join(f"- {words}" for words in run.shown) or "None."
    return _PAGE.format(
        day=day,
        commit=commit(),
        seed=run.seed,
        command=run.command,
        machine=machine(),
        minutes=f"{run.took_s / 60:.1f}",
        processor=f"{run.processor_s / 60:.1f}",
        load=f"{run.load_before:.1f}",
        wrong=wrong,
        other=sorts["other"],
        goals=goals(run),
        faults=faults(run),
        promises=promises(run),
        problems=problems,
    )


_PAGE = (Path(__file__).parent / "reliability.md.in").read_text()
