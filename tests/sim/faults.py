"""Draws faults, counts them, and notes in which states of intents and lanes each struck."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

from tests.sim.plan import GROUPS, Plan

STATES = ("none", "queued", "inflight", "held", "done", "failed", "cancelled")
LANES = ("active", "draining", "paused", "quarantined", "closed")


class Faults:
    def __init__(self, plan: Plan, time: Callable[[], float], states: Callable[[str], Iterable[str]]) -> None:
        self._time = time
        self._states = states
        self._skipped = plan.skipped
        self._rngs = {group: random.Random(f"{group}:{plan.seed}") for group in GROUPS}
        self._drawn: Counter[str] = Counter()
        self._tables: dict[str, list[tuple[float, str]]] = {}
        for group, kinds in GROUPS.items():
            table, upto = [], 0.0
            for kind in kinds:
                if kind in plan.rates:
                    upto += plan.rates[kind]
                    table.append((upto, kind))
            self._tables[group] = table
        self.on = True
        self.struck: list[tuple[float, str, str, int]] = []
        """(when, kind, where, ordinal in its group)"""
        self.cells: Counter[tuple[str, str]] = Counter()

    def draw(self, group: str, where: str, lane: str = "", only: tuple[str, ...] | None = None) -> str | None:
        """The fault that strikes here and now, if any. `only`: kinds that make sense here."""
        table = self._tables[group]
        if not table or not self.on:
            return None
        chance = self._rngs[group].random()
        if chance >= table[-1][0]:
            return None
        kind = next(kind for upto, kind in table if chance < upto)
        if only is not None and kind not in only:
            return None
        ordinal = self._drawn[group]
        self._drawn[group] += 1
        if (group, ordinal) in self._skipped:
            return None
        self.note(kind, where, lane, ordinal)
        return kind

    def amount(self, group: str) -> float:
        """How long, how far: a second number in [0, 1) for the fault just drawn."""
        return self._rngs[group].random()

    def note(self, kind: str, where: str, lane: str = "", ordinal: int = -1) -> None:
        self.struck.append((self._time(), kind, where, ordinal))
        for state in self._states(lane):
            self.cells[kind, state] += 1
