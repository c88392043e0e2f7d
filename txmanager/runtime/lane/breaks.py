"""What breaks the owner of a lane is tried again twice, then set aside: the intent that did it, else the lane.

The count is in the ledger, so that a take-over does not start it anew. Before write-ahead a third break ends the intent
(`unprocessable`, nothing spent); after it the intent is held, because its bytes may land. A lane that breaks and
nobody knows why is quarantined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import Taken
from txmanager.core.models import IntentId, Json, failure
from txmanager.core.stops import QuarantineCause

if TYPE_CHECKING:
    from txmanager.core.flights import Flight
    from txmanager.runtime.lane.owner import OwnedLane

STRIKES = 3
AGAIN_MS = 200
UNPROCESSABLE = "unprocessable"
_INTENT_FORGETS_MS = 24 * 3600 * 1000
_LANE_FORGETS_MS = 600_000


@dataclass(frozen=True, slots=True)
class Broken:
    """What came of an intent that broke the adapter."""

    error: Exception


class Breaks:
    def __init__(self, lane: OwnedLane) -> None:
        self._lane = lane
        self._number = 0

    async def of_flight(self, flight: Flight, error: Exception) -> None:
        """It has attempts, so it can only be held; until then, and while it is held, it is tried again later."""
        lane, record = self._lane, flight.record
        count = await self._count(_name(record.id, record.life), error)
        flight.retry_at = lane.context.clock() + AGAIN_MS * 2 ** min(count, 6)
        flight.order = None
        if count >= STRIKES and not flight.held:
            await lane.hold(record, UNPROCESSABLE, {**_evidence(error), "breaks": count})

    async def of_entry(self, entry: Taken, error: Exception) -> dict[str, Json] | None:
        """The error to end it with when that was the third break; None: try it again, before everything behind it."""
        count = await self._count(_name(entry.intent.id, entry.life), error)
        if count < STRIKES:
            return None
        # The exception's own words are for the log: a caller gets its name.
        message = f"the intent could not be processed ({type(error).__name__}); nothing was spent"
        return failure(UNPROCESSABLE, message, new_key_helps=False)

    async def of_lane(self, error: Exception) -> None:
        count = await self._count("", error, _LANE_FORGETS_MS)
        if count >= STRIKES:
            await self._lane.quarantine(QuarantineCause.BROKEN, {**_evidence(error), "breaks": count})

    async def _count(self, what: str, error: Exception, forget_ms: int = _INTENT_FORGETS_MS) -> int:
        lane = self._lane
        self._number += 1
        mark = f"{lane.fence.epoch}.{self._number}"
        lane.context.metrics.breaks.labels(lane.id, type(error).__name__).inc()
        count = await lane.retry_while_leased(
            lambda: lane.context.ledger.broke(lane.fence, what, mark, _shown(error), forget_ms)
        )
        lane.log.error("broke", what=what or "the lane", count=count, exc_info=error)
        return count


def is_break(error: BaseException) -> bool:
    """Errors of our own tree are answers that somebody foresaw."""
    return isinstance(error, Exception) and not isinstance(error, TxManagerError | ExceptionGroup)


def first_break(error: BaseException) -> Exception | None:
    """The first break among whatever ended a lane together."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := first_break(one)) is not None), None)
    return error if isinstance(error, Exception) and is_break(error) else None


def _name(id: IntentId, life: str) -> str:
    return f"{id} {life}"


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def _evidence(error: Exception) -> dict[str, Json]:
    fix = "see the worker's log at this time and report it; then decide with txmanager resolve"
    return {"exception": type(error).__name__, "message": str(error)[:300], "resolve": fix}
