"""Budgets: what a token, a pool or one of a caller's own keys may spend within a span of time.

An intent is *charged* its worst case when it is accepted, and the charge is *corrected* to what it cost when it ends.
Open charges count however old they are. Costs count by the time of their end, in sixty buckets of the budget's span;
the oldest bucket counts whole, so that a budget is never larger than it says.

Everything here is in whole *units*, which a chain family names (nanoNEAR, gwei): amounts are rounded up, against the
caller, and every sum stays below 2^53, which is what a double holds exactly.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol

from txmanager.core.errors import BudgetExhausted, InvalidInput, TxManagerError, Unavailable
from txmanager.core.models import Intent, IntentId, Json, Record
from txmanager.core.values import value

MOST_UNITS = 2**53 - 1
BUCKETS = 60
EVER = 0
"""The span of a budget that is never given back."""
DAY_MS = 24 * 3600 * 1000
SHORTEST_MS = 60_000
SLOTS = 64
"""Budgets are spread over this many places; those of one place share a history, and are swept together."""
CHARGE = "charge"
"""Where an intent's limits carry its charge: stored with it, and sealed."""
_NAME = re.compile(r"[\x21-\x7e]{1,400}\Z")
_SOON_MS = 5_000
"""When to ask again while charges that are still open may give enough back: they end when their intents do."""


@value(frozen=True, slots=True)
class Budget:
    """One budget that a charge is held against."""

    name: str
    """`token:NAME/NETWORK/SPAN`, `pool:NAME/SPAN` or `key:TENANT/POOL/KEY/SPAN`."""
    limit: int
    """Units, as configured; an operator's override stands in the ledger."""
    per_ms: int = EVER

    @property
    def bucket_ms(self) -> int:
        return self.per_ms // BUCKETS or DAY_MS


@value(frozen=True, slots=True)
class Bill:
    """What a new intent is to be charged, before it has a life."""

    units: int
    budgets: tuple[Budget, ...]

    def charge(self, id: IntentId, life: str, born: int) -> Charge:
        return Charge(id, life, born, self.units, self.budgets)


@value(frozen=True, slots=True)
class Charge:
    """What one life of an intent may cost at worst, and every budget that pays for it."""

    id: IntentId
    life: str
    born: int
    """Of its claim: an old one is refused, as an append refuses it."""
    units: int
    budgets: tuple[Budget, ...]
    """The narrowest first: what a caller's own budget refuses never touches one that others share."""


@value(frozen=True, slots=True)
class Usage:
    """A budget as it stands."""

    name: str
    open: int = 0
    """Units of charges whose intents have not ended."""
    spent: Mapping[int, int] = field(default_factory=dict)
    """Units of costs, by bucket."""
    override: int | None = None
    """An operator's limit; it stands until it is reset, whatever the configuration says."""
    moved: bool = False
    """The store may have lost charges: nothing is charged until it is rebuilt from the records."""
    now: int = 0

    def limit(self, budget: Budget) -> int:
        return budget.limit if self.override is None else self.override

    def costs(self, budget: Budget, at: int | None = None) -> int:
        """What ended within the span, the oldest bucket whole."""
        oldest = oldest_bucket(budget.per_ms, budget.bucket_ms, self.now if at is None else at)
        return sum(units for bucket, units in self.spent.items() if bucket >= oldest)

    def left(self, budget: Budget) -> int:
        return max(0, self.limit(budget) - self.open - self.costs(budget))

    def free_in_ms(self, budget: Budget, units: int) -> int | None:
        """When enough may be free at the earliest; None when it never is, because it is more than the whole budget.

        Open charges may end at any moment and give back what was not used. Costs leave the window bucket by bucket."""
        limit = self.limit(budget)
        if units > limit or (budget.per_ms == EVER and units > limit - self.costs(budget)):
            return None
        if units <= limit - self.costs(budget):
            return _SOON_MS
        left = self.costs(budget)
        oldest = oldest_bucket(budget.per_ms, budget.bucket_ms, self.now)
        for bucket in sorted(b for b in self.spent if b >= oldest):
            left -= self.spent[bucket]
            if units <= limit - left:
                return (bucket + 1) * budget.bucket_ms + budget.per_ms - self.now
        raise AssertionError("with every bucket gone a budget is whole")


@value(frozen=True, slots=True)
class Charged:
    """`charged`, now or before · `exhausted` by `budget`, see `usage` · `ended` this life was corrected already: append
    knows what became of it · `stale`/`ahead` claim again · `moved` the store may have lost charges of `budget`.

    All budgets of a charge are charged, or none; a crash in between leaves what `due_charges` finds."""

    word: Literal["charged", "exhausted", "ended", "stale", "ahead", "moved"]
    turns: Mapping[str, int] = field(default_factory=dict)
    """How often each of them was charged with this life, by budget: what `uncharge` is held against."""
    budget: Budget | None = None
    usage: Usage | None = None

    @property
    def fresh(self) -> dict[str, int]:
        """What this call charged first. The rest is somebody else's, too, who may still append: it stays."""
        return {name: turn for name, turn in self.turns.items() if turn == 1}


@value(frozen=True, slots=True)
class OpenCharge:
    """A charge as it stands in one budget."""

    budget: str
    life: str
    units: int
    turn: int
    born: int
    id: IntentId


@value(frozen=True, slots=True)
class Noted:
    """A charge as its intent carries it."""

    amount: int
    """In the chain's smallest unit: what the intent may cost at most, at every signature."""
    unit: int
    units: int
    budgets: tuple[tuple[str, int], ...]
    """Name and span of each."""

    def booked(self, cost: int) -> int:
        """A cost in units, rounded up against the caller."""
        return min(MOST_UNITS, -(-cost // self.unit))


@value(frozen=True, slots=True)
class Correction:
    """What one life cost in one budget, and when it ended."""

    budget: str
    per_ms: int
    life: str
    units: int
    at: int

    @property
    def bucket_ms(self) -> int:
        return self.per_ms // BUCKETS or DAY_MS


class Budgets(Protocol):
    """Charges and costs, by budget. Each call may be repeated: a charge is known by its life."""

    async def charge(self, charges: Sequence[Charge]) -> list[Charged]:
        """Hold each charge against all of its budgets: all of them, or none. What is charged already is not checked
        again."""
        ...

    async def uncharge(self, life: str, turns: Mapping[str, int]) -> int:
        """Take back the charges of an intent that was not accepted; answers how many. A charge with another turn than
        the given one was made again by somebody else, and stays: it is theirs now."""
        ...

    async def correct(self, corrections: Sequence[Correction]) -> int:
        """Replace charges by costs, durably, before the record is buried; answers how many. One that is corrected
        already, or was never charged, changes nothing."""
        ...

    async def usage(self, names: Sequence[str]) -> list[Usage]: ...

    async def override(self, name: str, limit: int | None, expected: int | None) -> bool:
        """Put an operator's limit in place of the configured one, durably; None takes it away. False when the override
        is neither the expected one nor this one already."""
        ...

    async def due_charges(self, slot: int, count: int) -> list[OpenCharge]:
        """Charges of one place that somebody should look at: open for three append limits, or since `look_later`."""
        ...

    async def look_later(self, charge: OpenCharge, after_ms: int) -> None:
        """Its intent lives: leave the charge alone for a while."""
        ...

    async def rebuild(self) -> int:
        """After a change of history that the store does not vouch for: put back what the records say, and let the
        budgets charge again. Answers how many places were rebuilt. It never lowers what stands."""
        ...


def slot_of(name: str) -> int:
    """The place of a budget, for ever."""
    return hashlib.blake2b(name.encode(), digest_size=2).digest()[0] % SLOTS


def oldest_bucket(per_ms: int, bucket_ms: int, now: int) -> int:
    return 0 if per_ms == EVER else (now - per_ms) // bucket_ms


def in_units(amount: int, unit: int) -> int:
    """Rounded up, against the caller; nothing is free."""
    return max(1, -(-amount // unit))


def check_charges(charges: Sequence[Charge]) -> None:
    """What any backend refuses before it writes."""
    for charge in charges:
        if not 1 <= charge.units <= MOST_UNITS:
            raise InvalidInput("units", "must be from 1 to 2^53 - 1; the chain family names a larger unit")
        for budget in charge.budgets:
            if not _NAME.match(budget.name):
                raise InvalidInput("budget", "its name must be 1 to 400 visible ASCII characters")
            if not 0 <= budget.limit <= MOST_UNITS:
                raise InvalidInput("limit", "must be from 0 to 2^53 - 1 units")
            if budget.per_ms != EVER and budget.per_ms < SHORTEST_MS:
                raise InvalidInput("per", "must be at least 60 seconds, or ever")


# -- an intent and its charge


def noted_charge(amount: int, unit: int, budgets: Sequence[Budget]) -> dict[str, Json]:
    """The part of an intent's limits that says what it was charged."""
    return {
        CHARGE: {
            "amount": str(amount),
            "unit": str(unit),
            "units": str(in_units(amount, unit)),
            "budgets": [[budget.name, budget.per_ms] for budget in budgets],
        }
    }


def charge_of(intent: Intent) -> Noted | None:
    """What an intent was charged; None where it was not, or where nobody can read it."""
    charge = intent.limits.get(CHARGE)
    if charge is None or not isinstance(
        charge, Mapping
    ):  # None first: asked of every intent, and an abstract class is slow
        return None
    try:
        budgets = tuple((str(name), int(per)) for name, per in charge["budgets"])
        noted = Noted(int(charge["amount"]), int(charge["unit"]), int(charge["units"]), budgets)
    except (KeyError, TypeError, ValueError):
        return None
    return noted if noted.unit > 0 and noted.amount >= 0 else None


def cost_of(record: Record) -> int:
    """What a final record is booked at, in the chain's smallest unit.

    Without a recorded attempt nothing left the lane. Otherwise it is what landed, as the outcome tells; where that says
    nothing the whole charge stays booked, because cancelling must be no way to spend without paying."""
    noted = charge_of(record.intent)
    if noted is None or not record.attempts:
        return 0
    cost = record.outcome.cost if record.outcome is not None else None
    return noted.amount if cost is None else cost


def excess(record: Record) -> int:
    """By how much a final record cost more than it was charged, in the chain's smallest unit."""
    noted = charge_of(record.intent)
    return 0 if noted is None else max(0, cost_of(record) - noted.amount)


def corrections(record: Record) -> list[Correction]:
    """What the end of an intent changes in each of its budgets."""
    noted = charge_of(record.intent)
    if noted is None:
        return []
    units = noted.booked(cost_of(record))
    return [Correction(name, per_ms, record.life, units, record.updated_at) for name, per_ms in noted.budgets]


def refusal(charged: Charged, units: int) -> TxManagerError:
    """Why an intent is not accepted, for its caller."""
    budget, usage = charged.budget, charged.usage
    assert budget is not None
    if charged.word == "moved" or usage is None:
        return Unavailable(
            f"budget {budget.name} is being rebuilt, because the ledger may have lost charges; nothing was accepted"
        )
    wait_ms = usage.free_in_ms(budget, units)
    return BudgetExhausted(budget.name, usage.left(budget), units, None if wait_ms is None else -(-wait_ms // 1000))
