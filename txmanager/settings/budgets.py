"""Budgets as they are configured: an amount of a network's money within a span of time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from txmanager.core.budgets import EVER, MOST_UNITS, SHORTEST_MS, Budget
from txmanager.core.errors import InvalidSettings
from txmanager.settings.parts import Name, Part

if TYPE_CHECKING:
    from txmanager.settings.family import Unit

_SPAN = re.compile(r"([1-9][0-9]{0,8})(s|m|h|d)\Z")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def _span(value: object) -> object:
    if value == "ever":
        return EVER
    found = _SPAN.match(value) if isinstance(value, str) else None
    if found is None or int(found[1]) * _SECONDS[found[2]] * 1000 < SHORTEST_MS:
        raise ValueError('must be a span such as "1h" or "30d", at least "1m", or "ever"')
    return int(found[1]) * _SECONDS[found[2]] * 1000


def span_words(per_ms: int) -> str:
    """`1d`, `36h`, `90m`, `ever`: one form for one span."""
    if per_ms == EVER:
        return "ever"
    seconds = per_ms // 1000
    letter = next(letter for letter, length in _SECONDS.items() if seconds % length == 0)
    return f"{seconds // _SECONDS[letter]}{letter}"


_SPAN_SCHEMA = {"type": "string", "pattern": "^([1-9][0-9]{0,8}[smhd]|ever)$"}
Span = Annotated[
    int, BeforeValidator(_span), PlainSerializer(span_words), Field(ge=0), WithJsonSchema(_SPAN_SCHEMA, "validation")
]


def _amount(value: object) -> object:
    """Digits of the smallest unit, or a number and the name of a unit; which one it is, the network knows."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]+(\.[0-9]+)?( [A-Za-z]+)?", value):
        raise ValueError("must be a number and a unit of the chain in quotes, or digits of the smallest unit")
    return value


Amount = Annotated[str, BeforeValidator(_amount)]
"""`10 NEAR`, or digits of the smallest unit."""


class BudgetSettings(Part):
    network: Name
    amount: Amount
    per: Span

    def budget(self, owner: str, unit: Unit) -> Budget:
        """Rounded down, against the caller."""
        return Budget(f"{owner}/{span_words(self.per)}", unit.parse(self.amount) // unit.budget, self.per)


Budgets = tuple[BudgetSettings, ...]


def budget_contradictions(
    where: str,
    budgets: Sequence[BudgetSettings],
    networks: Mapping[str, Any],
    units: Mapping[str, Unit],
    retention_s: int,
) -> Iterator[InvalidSettings]:
    seen: set[tuple[str, int]] = set()
    for n, settings in enumerate(budgets):
        at = f"{where}[{n}]"
        if settings.network not in networks:
            yield InvalidSettings(f"{at}.network", f"names no [networks.{settings.network}]; add it or remove it")
            continue
        if (settings.network, settings.per) in seen:
            yield InvalidSettings(f"{at}.per", "is there twice for this network; keep one of the two")
        seen.add((settings.network, settings.per))
        if settings.per > retention_s * 1000:
            yield InvalidSettings(
                f"{at}.per",
                f'must not exceed ledger.retention_s ({retention_s} s), or be "ever": records tell what was spent',
            )
        try:
            limit = settings.budget("", units[settings.network]).limit
        except ValueError as error:
            yield InvalidSettings(f"{at}.amount", str(error))
            continue
        if not 1 <= limit <= MOST_UNITS:
            unit = units[settings.network]
            yield InvalidSettings(
                f"{at}.amount", f"must be from {unit.budget} to {MOST_UNITS * unit.budget} {unit.smallest}"
            )
