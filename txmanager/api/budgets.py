"""Budgets as callers and operators see them: what is configured, what is charged, what is left."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from pydantic import Field

from txmanager.api.auth import Caller
from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.intents import Intents
from txmanager.api.metrics import ApiMetrics
from txmanager.api.records import View
from txmanager.core.budgets import Usage
from txmanager.core.errors import InvalidInput, TxManagerError
from txmanager.core.models import Json
from txmanager.runtime.accept.billing import BUDGET_KEY, Billing, Named
from txmanager.runtime.manager import TxManager

_FRESH_S = 5.0


class BudgetView(View):
    """One budget. Amounts are in the chain's smallest unit."""

    name: str = Field(examples=["token:wallet/mainnet/1d"])
    kind: str = Field(examples=["token"], description="token, pool or key.")
    network: str
    per: str = Field(examples=["1d"], description="Its span, or `ever`.")
    limit: str = Field(description="What it pays for within its span, now.")
    configured: str = Field(description="What the configuration says; an operator may have set another limit.")
    charged: str = Field(description="The worst cases of intents that have not ended.")
    spent: str = Field(description="What intents cost that ended within the span.")
    left: str
    rebuilding: bool = Field(description="The ledger may have lost charges: nothing is accepted until it is rebuilt.")


class BudgetList(View):
    budgets: list[BudgetView]


def budget_json(named: Named, usage: Usage) -> dict[str, Json]:
    budget, unit = named.budget, named.unit.budget
    return {
        "name": budget.name,
        "kind": named.kind,
        "network": named.network,
        "per": named.per,
        "limit": str(usage.limit(budget) * unit),
        "configured": str(budget.limit * unit),
        "charged": str(usage.open * unit),
        "spent": str(usage.costs(budget) * unit),
        "left": str(usage.left(budget) * unit),
        "rebuilding": usage.moved,
    }


class BudgetRoutes:
    def __init__(self, manager: TxManager, intents: Intents, billing: Billing, metrics: ApiMetrics) -> None:
        self._manager = manager
        self._intents = intents
        self._billing = billing
        self._metrics = metrics
        self._measured_at = float("-inf")

    async def list(self, call: Call) -> Reply:
        """The caller's own and its pools'; for operators of all tenants everybody's. With `budget_key`, that key's."""
        key, tenant = call.query.get("budget_key"), call.query.get("tenant")
        if tenant is not None:
            call.caller.tenant_for(tenant)  # a name, and one that this caller may ask for
        if key is None:
            if (pool := call.query.get("pool")) is not None:
                self._intents.pool_of(call.caller, pool)
            shown = [named for named in self._billing.configured() if _sees(call.caller, named)]
        else:
            if not BUDGET_KEY.match(key):
                raise InvalidInput("budget_key", "must be 1 to 128 of A-Z a-z 0-9 _ . : @ -")
            pool = self._intents.pool_of(call.caller, call.query.get("pool"))
            shown = self._billing.of_key(call.tenant, pool, key)
        usages = await self._usages(shown)
        return json_reply({"budgets": [budget_json(named, used) for named, used in zip(shown, usages, strict=True)]})

    async def _usages(self, shown: Sequence[Named]) -> Sequence[Usage]:
        names = [named.budget.name for named in shown]
        return await self._intents.within(self._manager.budgets.usage(names)) if names else []

    async def measure(self) -> None:
        """Bring the metrics up to date; a ledger that is away leaves them as they were."""
        named = list(self._billing.configured())
        if not named or monotonic() - self._measured_at < _FRESH_S:
            return
        self._measured_at = monotonic()
        try:
            usages = await self._usages(named)
        except TxManagerError:
            return
        for one, used in zip(named, usages, strict=True):
            unit, name = one.unit.budget, one.budget.name
            self._metrics.budget_limit.labels(name).set(used.limit(one.budget) * unit)
            self._metrics.budget_used.labels(name).set((used.open + used.costs(one.budget)) * unit)


def _sees(caller: Caller, named: Named) -> bool:
    if caller.operates and caller.whole:
        return True
    return named.owner == caller.name if named.kind == "token" else caller.may_use_pool(named.owner)
