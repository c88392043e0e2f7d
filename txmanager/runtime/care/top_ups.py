"""Top-ups: a purse that runs low is paid from the lanes of a treasury pool, by an ordinary intent.

However many monitors ask, and wherever one is killed, a purse has one payment on its way: each is charged to a budget
of the purse itself, which holds no second one. The treasury's own budgets are charged with it, and are the cap. A
monitor that lost its answer asks again under the same key, which names purse, span and amount.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from txmanager.core.budgets import Budget
from txmanager.core.errors import BudgetExhausted, PolicyRefused, TxManagerError
from txmanager.core.kinds import Reading
from txmanager.core.ledger import Ledger
from txmanager.core.models import Json, new_intent
from txmanager.core.purses import METER_MS, Marks, amount_due, meter, one_at_a_time, settled_recently, top_up_key
from txmanager.runtime.accept.billing import Billed, Billing
from txmanager.runtime.accept.producer import Producer

TENANT = "default"


@dataclass(frozen=True, slots=True)
class TopUp:
    """A payment that was asked for now."""

    key: str
    amount: int


@dataclass(frozen=True, slots=True)
class TopUps:
    ledger: Ledger
    producer: Producer
    billing: Billing
    pool: str
    """Whose lanes pay; what they pay from is never topped up."""
    payment: Callable[[str, int], tuple[str, Mapping[str, Json]]]
    """The kind and payload of what pays an amount into a purse."""
    read: Callable[[str, str, Mapping[str, Json]], Reading]
    """A payload of a kind by the rules of a pool."""
    every_ms: int = 3_600_000
    meter_ms: int = METER_MS

    async def pay(self, purse: str, marks: Marks, balance: Callable[[], Awaitable[int]]) -> TopUp | None:
        """None when nothing is due, or a payment is on its way or was made just now. Raises what refuses it."""
        now = await self.ledger.now_ms()
        once = one_at_a_time(purse, 1, self.every_ms)
        [usage] = await self.ledger.usage([once.name])
        # First the book, then the balance: what is not in the book any more is in the balance.
        amount = amount_due(await balance(), marks, settled_recently(usage, once))
        if not amount:
            return None
        kind, payload = self.payment(purse, amount)
        billed = self.bill(purse, kind, payload)
        intent = new_intent(
            key=top_up_key(purse, amount, now, self.every_ms),
            pool=self.pool,
            kind=kind,
            payload=payload,
            tenant=TENANT,
            max_age_s=max(1, self.every_ms // 1000),
            metadata={"top_up": purse},
            limits=billed.limits,
        )
        [result] = await self.producer.submit_many([intent], bills=[billed.bill])
        if isinstance(result, BudgetExhausted):
            if result.budget == once.name:
                return None  # another monitor was faster
            raise self.billing.in_words(result)
        if isinstance(result, TxManagerError):
            raise result
        return None if result.replayed else TopUp(intent.id.key, amount)

    def bill(self, purse: str, kind: str, payload: Mapping[str, Json]) -> Billed:
        """Who pays. `PolicyRefused` where the treasury's policy or budgets do not allow such a payment at all."""
        reading = self.read(kind, self.pool, payload)
        if reading.refusal is not None:
            raise reading.refusal

        def beside(units: int) -> tuple[Budget, ...]:
            return one_at_a_time(purse, units, self.every_ms), meter(purse, self.meter_ms)

        billed = self.billing.bill("", TENANT, self.pool, None, reading.worst, reading.max_cost, beside=beside)
        if billed.bill is None:
            raise PolicyRefused("budget", f"the treasury pool {self.pool!r} needs one: it caps what top-ups may cost")
        return billed
