"""How fast a treasury is spent, and how long it lasts: from what its budgets booked.

A budget knows what each payment cost, fees included, by the time of its end, through restarts. Of several the one with
the longest span tells most. What somebody pays from the account by other means is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from txmanager.core.budgets import Budgets
from txmanager.core.purses import METER_MS, days_left, meter, units_per_day
from txmanager.runtime.accept.billing import Billing


@dataclass(frozen=True, slots=True)
class TreasuryUse:
    pool: str
    balance: int
    per_day: int
    """In the chain's smallest unit."""

    @property
    def days_left(self) -> float | None:
        return days_left(self.balance, self.per_day)


async def spending_of(ledger: Budgets, billing: Billing, balances: Mapping[str, int]) -> list[TreasuryUse]:
    """`balances` of treasury pools, by name."""
    found = []
    for pool, balance in sorted(balances.items()):
        own = [named for named in billing.configured() if named.kind == "pool" and named.owner == pool]
        if own:
            longest = max(own, key=lambda named: named.budget.per_ms or float("inf"))
            [usage] = await ledger.usage([longest.budget.name])
            per_day = units_per_day(usage, longest.budget) * longest.unit.budget
            found.append(TreasuryUse(pool, balance, per_day))
    return found


async def paid_per_day(ledger: Budgets, purses: Sequence[str], unit: int, span_ms: int = METER_MS) -> dict[str, int]:
    """What was paid into each purse in a day, by what top-ups cost."""
    meters = {purse: meter(purse, span_ms) for purse in purses}
    usages = await ledger.usage([one.name for one in meters.values()])
    return {p: units_per_day(usage, one) * unit for (p, one), usage in zip(meters.items(), usages, strict=True)}
