"""Budgets in memory: each method is one atomic step on one budget, as a place of a cluster has it."""

from __future__ import annotations

from dataclasses import dataclass, field

from txmanager.core.budgets import (
    MOST_UNITS,
    Budget,
    Charge,
    Charged,
    Correction,
    OpenCharge,
    Usage,
    oldest_bucket,
    slot_of,
)
from txmanager.core.ledger import APPEND_WITHIN_MS, TOMBSTONE_MS
from txmanager.ledger.restoring import Restored


@dataclass(slots=True)
class _Book:
    open: dict[str, OpenCharge] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)
    override: int | None = None
    idle_ms: int = 0
    """How long it is remembered when nothing is charged to it; 0 for ever."""
    expires: int | None = None

    @property
    def units(self) -> int:
        return sum(charge.units for charge in self.open.values())


class BudgetStore:
    def __init__(self) -> None:
        self._books: dict[str, _Book] = {}
        self._looks: dict[tuple[str, str], int] = {}
        """When to look at an open charge, by budget and life."""
        self._ended: dict[tuple[str, str], int] = {}
        """Until when a life is remembered that was corrected."""
        self._histories: dict[int, str] = {}

    def _book(self, name: str, now: int) -> _Book:
        book = self._books.get(name)
        if book is None or (book.expires is not None and book.expires <= now):
            book = self._books[name] = _Book()
        return book

    def _rest(self, book: _Book, now: int) -> None:
        idle = book.idle_ms and book.override is None and not book.open
        book.expires = now + book.idle_ms if idle else None

    def moved(self, slot: int, history: str, vouched: bool) -> bool:
        return self._histories.get(slot, history) != history and not vouched

    def charge(self, charge: Charge, budget: Budget, history: str, vouched: bool, now: int) -> Charged:
        book, name, life, slot = self._book(budget.name, now), budget.name, charge.life, slot_of(budget.name)
        moved = self.moved(slot, history, vouched)
        if self._ended.get((name, life), now) > now:
            return Charged("ended")
        entry = book.open.get(life)
        if entry is None:
            if charge.born < now - APPEND_WITHIN_MS:
                return Charged("stale")
            if charge.born > now + APPEND_WITHIN_MS:
                return Charged("ahead")
            usage = self.usage(name, history, vouched, now)
            if moved:
                return Charged("moved", budget=budget, usage=usage)
            if book.units + usage.costs(budget) + charge.units > usage.limit(budget):
                return Charged("exhausted", budget=budget, usage=usage)
            oldest = oldest_bucket(budget.per_ms, budget.bucket_ms, now)
            book.spent = {bucket: units for bucket, units in book.spent.items() if bucket >= oldest}
        if not moved:
            self._histories[slot] = history
        units, turn = (entry.units, entry.turn + 1) if entry is not None else (charge.units, 1)
        book.open[life] = OpenCharge(name, life, units, turn, charge.born, charge.id)
        book.idle_ms = budget.per_ms and budget.per_ms + budget.bucket_ms
        book.expires = None
        self._looks[name, life] = now + TOMBSTONE_MS
        return Charged("charged", {name: turn})

    def uncharge(self, name: str, life: str, turn: int, now: int) -> bool:
        book = self._book(name, now)
        entry = book.open.get(life)
        if entry is None or entry.turn != turn:
            return False
        self._take_out(book, name, life, now)
        return True

    def correct(self, c: Correction, now: int) -> bool:
        book = self._book(c.budget, now)
        if c.life not in book.open:
            return False
        bucket = c.at // c.bucket_ms
        if c.units and bucket >= oldest_bucket(c.per_ms, c.bucket_ms, now):
            book.spent[bucket] = min(MOST_UNITS, book.spent.get(bucket, 0) + c.units)
        self._ended[c.budget, c.life] = now + TOMBSTONE_MS
        self._take_out(book, c.budget, c.life, now)
        return True

    def _take_out(self, book: _Book, name: str, life: str, now: int) -> None:
        del book.open[life]
        self._looks.pop((name, life), None)
        self._rest(book, now)

    def usage(self, name: str, history: str, vouched: bool, now: int) -> Usage:
        book = self._book(name, now)
        return Usage(
            name, book.units, dict(book.spent), book.override, self.moved(slot_of(name), history, vouched), now
        )

    def override(self, name: str, limit: int | None, expected: int | None, now: int) -> bool:
        book = self._book(name, now)
        if book.override not in (limit, expected):
            return False
        book.override = limit
        self._rest(book, now)
        return True

    def due(self, slot: int, count: int, now: int) -> list[OpenCharge]:
        self._ended = {life: until for life, until in self._ended.items() if until > now}
        looks = [(at, name, life) for (name, life), at in self._looks.items() if at <= now and slot_of(name) == slot]
        return [self._books[name].open[life] for _, name, life in sorted(looks)[:count]]

    def look_later(self, charge: OpenCharge, at: int) -> None:
        if (charge.budget, charge.life) in self._looks:
            self._looks[charge.budget, charge.life] = at

    def slots(self) -> set[int]:
        """The places that have open charges."""
        return {slot_of(name) for name, _ in self._looks}

    def all_due(self) -> None:
        """For tests: it is time to look at every charge, and every life that ended is forgotten."""
        self._looks = dict.fromkeys(self._looks, 0)
        self._ended = {}

    def moved_slots(self, history: str, vouched: bool) -> set[int]:
        return {slot for slot in self._histories if self.moved(slot, history, vouched)}

    def restore(self, name: str, restored: Restored, now: int) -> None:
        book = self._book(name, now)
        for bucket, units in restored.spent.items():
            book.spent[bucket] = max(units, book.spent.get(bucket, 0))
        for one in restored.open:
            if book.open.setdefault(one.life, one) is one:
                self._looks[name, one.life] = now + TOMBSTONE_MS
        book.idle_ms = restored.per_ms and restored.per_ms + restored.bucket_ms
        self._rest(book, now)

    def rebuilt(self, slot: int, history: str) -> None:
        self._histories[slot] = history
