"""`?dry_run=true`: what a submit would be answered with, and what a worker would find then. Nothing is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import BaseModel, Field

from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.problems import problem
from txmanager.api.quotas import TokenQuotas
from txmanager.core.budgets import Bill, charge_of
from txmanager.core.errors import BudgetExhausted, TxManagerError
from txmanager.core.models import Intent, IntentId, Json
from txmanager.core.values import value
from txmanager.runtime.accept.billing import Billing
from txmanager.runtime.accept.dry_run import DryRun, Foreseen
from txmanager.runtime.accept.producer import Submitted


@value(frozen=True, slots=True)
class Asked:
    """A request that was read."""

    intent: Intent
    own_key: IntentId | None
    """The caller's own key, where it becomes an alias."""
    own_account: bool
    """Whether it acts on the pool's own account: an operator's call, which the audit has."""
    refusal: TxManagerError | None
    """Why it is refused, unless it was accepted before."""
    bill: Bill | None = None


class Verdict(BaseModel):
    """What the same request without `dry_run` would be answered with."""

    ok: bool
    status: int
    replayed: bool | None = None
    lane: str | None = Field(default=None, description="Where it would go.")
    charge: str | None = Field(default=None, description="What budgets would be charged, in the smallest unit.")
    problem: dict[str, Json] | None = None


class DryRunView(BaseModel):
    """Nothing was written. `forecast` is what acceptance does not check: simulation, price, the lane's key."""

    accepted: Verdict
    forecast: dict[str, Json] | None


class DryRuns:
    def __init__(self, dry_run: DryRun, quotas: TokenQuotas, billing: Billing) -> None:
        self._dry_run = dry_run
        self._quotas = quotas
        self._billing = billing

    async def answer(
        self, call: Call, read: Callable[[], Asked], known: Callable[[Asked], Awaitable[Submitted | None]], lane: str
    ) -> Reply:
        asked = read()  # what is wrong with the request itself is answered as ever
        try:
            foreseen = await self._would(call, asked, known, lane)
        except TxManagerError as error:
            refusal = self._billing.in_words(error) if isinstance(error, BudgetExhausted) else error
            status, body = problem(refusal)
            return json_reply({"accepted": {"ok": False, "status": status, "problem": body}, "forecast": None})
        noted, new = charge_of(asked.intent), foreseen.known is None
        accepted = {
            "ok": True,
            "status": 202 if new else 200,
            "replayed": not new,
            "lane": foreseen.lane,
            "charge": str(noted.amount) if noted is not None and new else None,
        }
        forecast = await self._dry_run.forecast(asked.intent, foreseen.lane) if new else None
        return json_reply({"accepted": accepted, "forecast": forecast})

    async def _would(
        self, call: Call, asked: Asked, known: Callable[[Asked], Awaitable[Submitted | None]], lane: str
    ) -> Foreseen:
        if asked.refusal is not None:
            found = await known(asked)
            if found is None:
                raise asked.refusal
            return Foreseen(found.record.lane, found.record)
        foreseen = await self._dry_run.known(asked.intent, asked.own_key)
        if foreseen is not None:
            return foreseen
        # In the order of acceptance: room for the token, then a lane.
        await self._quotas.foresee(call.caller, len(call.body))
        return await self._dry_run.foresee(asked.intent, asked.bill, lane)
