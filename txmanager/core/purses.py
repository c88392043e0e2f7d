"""Purses and what is paid into them: pure rules from balances, marks and books to an amount, a rate, a number of days.

A purse is one place that lanes pay from: an account that many keys share, or the balance of one gas key. It is topped
up from `low` to `high`, once at a time: its own budget holds exactly one open payment, and remembers it for a while
after its end, so that no balance that was read before it landed is paid for again.
"""

from __future__ import annotations

import hashlib

from txmanager.core.budgets import BUCKETS, DAY_MS, EVER, MOST_UNITS, Budget, Usage
from txmanager.core.kinds import TOP_UP_KEY
from txmanager.core.values import value

METER_MS = 7 * DAY_MS
"""Over how long payments into a purse are summed up."""
_LONGEST = 180


@value(frozen=True, slots=True)
class Marks:
    """From when on a purse is low, and what it is filled up to; without `high` nobody fills it."""

    low: int
    high: int | None = None


def amount_due(balance: int, marks: Marks, on_its_way: bool) -> int:
    """What to pay into a purse now; 0 while it has enough, or a payment is on its way."""
    if marks.high is None or balance >= marks.low or on_its_way:
        return 0
    return max(0, marks.high - balance)


def short(purse: str) -> str:
    """The purse in names that have a limit; post-quantum keys are longer than any."""
    return purse if len(purse) <= _LONGEST else f"{purse[:80]}~{hashlib.sha256(purse.encode()).hexdigest()}"


def top_up_key(purse: str, amount: int, now_ms: int, every_ms: int) -> str:
    """The same for every monitor that sees the same: a lost reply is asked for again under the same key."""
    return f"{TOP_UP_KEY}{short(purse)}:{now_ms // every_ms}:{amount}"


def one_at_a_time(purse: str, units: int, every_ms: int) -> Budget:
    """Holds the payment that it is charged with and nothing beside: another one, whatever its key, is refused until
    this one ended, and for `every_ms` after that if it cost anything."""
    return Budget(f"purse:{short(purse)}", units, every_ms)


def meter(purse: str, span_ms: int = METER_MS) -> Budget:
    """Counts what is paid in, and refuses nothing."""
    return Budget(f"paid-into:{short(purse)}", MOST_UNITS, span_ms)


def settled_recently(usage: Usage, budget: Budget) -> bool:
    return bool(usage.open or usage.costs(budget))


def units_per_day(usage: Usage, budget: Budget) -> int:
    """What a budget's costs come to in a day: over its span, or since its first cost if that is shorter; never from
    less than a day, unless its span is."""
    costs = usage.costs(budget)
    if not costs:
        return 0
    first = min(bucket for bucket, units in usage.spent.items() if units) * budget.bucket_ms
    whole = budget.per_ms + budget.per_ms // BUCKETS if budget.per_ms != EVER else usage.now
    seen_ms = min(whole, max(usage.now - first, min(DAY_MS, whole)))
    return -(-costs * DAY_MS // max(1, seen_ms))


def days_left(balance: int, per_day: int) -> float | None:
    """None where nothing is spent."""
    return balance / per_day if per_day else None
