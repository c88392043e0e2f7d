"""Who pays for an intent, and how much it is charged: from the configuration's budgets to a bill.

A token's budgets of the pool's network, the pool's own, and those of the caller's `budget_key` all have to hold. The
charge is what the chain family says it costs at worst, at most its `max_cost`; it is noted on the intent, and bounds
every signature from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from txmanager.core.budgets import MOST_UNITS, Bill, Budget, in_units, noted_charge
from txmanager.core.errors import BudgetExhausted, PolicyRefused
from txmanager.core.models import Json
from txmanager.core.spending import noted
from txmanager.core.values import value
from txmanager.settings import Settings
from txmanager.settings.budgets import BudgetSettings, span_words
from txmanager.settings.family import Unit

BUDGET_KEY = re.compile(r"[A-Za-z0-9_.:@-]{1,128}\Z")


@dataclass(frozen=True, slots=True)
class Named:
    """A budget of the configuration, with what people want to know of it."""

    budget: Budget
    kind: str
    """token, pool or key"""
    owner: str
    """The token's or the pool's name; of a key: TENANT/POOL/KEY"""
    network: str
    unit: Unit

    @property
    def per(self) -> str:
        return span_words(self.budget.per_ms)


@value(frozen=True, slots=True)
class Billed:
    """What an intent is accepted with."""

    limits: Mapping[str, Json]
    bill: Bill | None = None


@dataclass(frozen=True, slots=True)
class _Pool:
    network: str
    unit: Unit
    own: tuple[Named, ...]
    per_key: tuple[BudgetSettings, ...]
    prefixes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Billing:
    """Without budgets in the configuration it charges nothing, and asks nothing of the ledger."""

    pools: Mapping[str, _Pool] = field(default_factory=dict)
    tokens: Mapping[str, tuple[Named, ...]] = field(default_factory=dict)

    def configured(self) -> Iterator[Named]:
        """Every budget of a token or a pool."""
        for named in self.tokens.values():
            yield from named
        for pool in self.pools.values():
            yield from pool.own

    def of_key(self, tenant: str, pool: str, key: str) -> list[Named]:
        of_pool = self.pools.get(pool)
        if of_pool is None:
            return []
        owner = f"{tenant}/{pool}/{key}"
        return [
            Named(one.budget(f"key:{owner}", of_pool.unit), "key", owner, of_pool.network, of_pool.unit)
            for one in of_pool.per_key
        ]

    def bill(
        self,
        token: str,
        tenant: str,
        pool: str,
        budget_key: str | None,
        worst: int | None,
        *max_costs: int | None,
        beside: Callable[[int], tuple[Budget, ...]] = lambda units: (),
    ) -> Billed:
        """`PolicyRefused` and `BudgetExhausted` are of new intents alone: a known key is answered all the same.
        `beside` makes more budgets from the units of the charge; they are held against before the configured ones."""
        of_pool = self.pools.get(pool)
        paying = list(self._paying(token, tenant, pool, budget_key, of_pool))
        if of_pool is None or not paying:
            return Billed(noted(*max_costs))
        known = [cost for cost in (worst, *max_costs) if cost is not None]
        if not known:
            raise PolicyRefused(
                "gas", "is needed, or a max_cost of the token or the pool: a budget pays for the worst case"
            )
        amount = min(known)
        units = in_units(amount, of_pool.unit.budget)
        if units > MOST_UNITS:
            raise _too_dear(paying[0], amount)
        budgets = (*beside(units), *(named.budget for named in paying))
        limits = noted(*max_costs, amount) | noted_charge(amount, of_pool.unit.budget, budgets)
        return Billed(limits, Bill(units, budgets))

    def _paying(self, token: str, tenant: str, pool: str, key: str | None, of_pool: _Pool | None) -> Iterator[Named]:
        """The narrowest first."""
        if of_pool is None:
            return
        if key is not None and not BUDGET_KEY.match(key):
            raise PolicyRefused("budget_key", "must be 1 to 128 of A-Z a-z 0-9 _ . : @ -")
        if of_pool.prefixes and (key is None or not key.startswith(of_pool.prefixes)):
            raise PolicyRefused("budget_key", f"must begin with {' or '.join(of_pool.prefixes)} in pool {pool!r}")
        if key is not None:
            yield from self.of_key(tenant, pool, key)
        own = self.tokens.get(token, ())
        mine = [named for named in own if named.network == of_pool.network]
        if own and not mine:
            why = f"token {token!r} has budgets, and none for network {of_pool.network!r} of pool {pool!r}"
            raise BudgetExhausted(f"token:{token}/{of_pool.network}", 0, 0, None, why)
        yield from mine
        yield from of_pool.own

    def in_words(self, error: BudgetExhausted) -> BudgetExhausted:
        """The same in the chain's money."""
        unit = self._unit(error.budget)
        if unit is None:
            return error
        return _worded(error.budget, error.left * unit.budget, error.needs * unit.budget, error.retry_after_s, unit)

    def _unit(self, name: str) -> Unit | None:
        for named in self.configured():
            if named.budget.name == name:
                return named.unit
        kind, _, rest = name.partition(":")
        pool = self.pools.get(rest.split("/")[1]) if kind == "key" and rest.count("/") >= 2 else None
        return pool.unit if pool is not None else None


def _too_dear(named: Named, amount: int) -> BudgetExhausted:
    left = named.budget.limit * named.unit.budget
    return _worded(named.budget.name, left, amount, None, named.unit)


def _worded(name: str, left: int, needs: int, retry_after_s: int | None, unit: Unit) -> BudgetExhausted:
    why = f"budget {name} has {unit.words(left)} left, and this may cost {unit.words(needs)}"
    return BudgetExhausted(name, left, needs, retry_after_s, why)


def build_billing(settings: Settings) -> Billing:
    pools = {}
    for name, pool in settings.pools.items():
        unit, policy = settings.family(pool.network).unit, pool.policy
        own = tuple(Named(one.budget(f"pool:{name}", unit), "pool", name, pool.network, unit) for one in policy.budget)
        pools[name] = _Pool(pool.network, unit, own, policy.budget_per_key, policy.required_prefixes)
    tokens = {}
    for token in settings.api.tokens:
        units = {one.network: settings.family(one.network).unit for one in token.limits.budget}
        tokens[token.name] = tuple(
            Named(
                one.budget(f"token:{token.name}/{one.network}", units[one.network]),
                "token",
                token.name,
                one.network,
                units[one.network],
            )
            for one in token.limits.budget
        )
    return Billing(pools, {name: named for name, named in tokens.items() if named})


def too_small(settings: Settings, billing: Billing) -> Iterator[str]:
    """Budgets that hold fewer than `max_inflight` worst cases of a pool that they pay for: they would slow it down."""
    for named in billing.configured():
        for name, pool in settings.pools.items():
            pays = named.owner == name if named.kind == "pool" else named.network == pool.network
            most = pool.policy.max_cost
            if pays and most is not None and named.budget.limit < pool.max_inflight * in_units(most, named.unit.budget):
                yield (
                    f"budget {named.budget.name} holds fewer than max_inflight ({pool.max_inflight}) worst cases of "
                    f"pool {name}: raise it, or lower max_cost"
                )
