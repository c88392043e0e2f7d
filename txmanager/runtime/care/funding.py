"""Top-ups: a lane that runs low is paid from the lanes of a funding pool, by an ordinary intent.

Its key names the lane and a span of time, so that however many monitors ask, and however often one is killed, a lane is
paid at most once in each span. While an earlier payment is on its way none is asked for, and the balance is read again
after its end: one that was read before may not have it yet. A payment that is not signed within a span is not made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from txmanager.core.errors import KeyReused
from txmanager.core.kinds import TOP_UP_KEY
from txmanager.core.ledger import Ledger
from txmanager.core.models import Json, Lane, intent_id, new_intent
from txmanager.runtime.accept.producer import Producer

LOOK_BACK = 32
"""How many spans may pass until a signed payment lands, and is still waited for."""


@dataclass(frozen=True, slots=True)
class TopUps:
    ledger: Ledger
    producer: Producer
    pool: str
    """Whose lanes pay; they are never topped up themselves."""
    amount: int
    payment: Callable[[str, int], tuple[str, Mapping[str, Json]]]
    """The kind and payload of what pays an amount to a lane."""
    every_ms: int = 3_600_000

    async def pay(self, lane: Lane, now: int, still_low: Callable[[], Awaitable[bool]]) -> str | None:
        """The key of the payment that was asked for now; None when there is one already, or none is due."""
        if lane.spec.pool == self.pool or lane.keyless:
            return None
        span = now // self.every_ms
        for before in range(span, span - LOOK_BACK, -1):
            record = await self.ledger.read(intent_id(self.key(lane.id, before), self.pool))
            if record is not None and (before == span or not record.status.final):
                return None
        if not await still_low():
            return None
        key = self.key(lane.id, span)
        kind, payload = self.payment(lane.id, self.amount)
        metadata = {"top_up": lane.id}
        try:
            await self.producer.submit(
                new_intent(
                    key=key,
                    pool=self.pool,
                    kind=kind,
                    payload=payload,
                    max_age_s=max(1, self.every_ms // 1000),
                    metadata=metadata,
                )
            )
        except KeyReused:
            return None  # another monitor was faster, with another amount
        return key

    @staticmethod
    def key(lane: str, span: int) -> str:
        return f"{TOP_UP_KEY}{lane}:{span}"
