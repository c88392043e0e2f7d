"""What operators rely on, on every chain: a held intent does nothing by itself, a paused lane signs no first attempt, a
quarantined one signs nothing, and whoever takes a lane over signs nothing on top of a stranger's nonce.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.history import Ended, Recorded
from txmanager.core.models import Purpose
from txmanager.core.states import LaneState

_ORDERS = {Purpose.RESIGN: ("resign",), Purpose.NOOP: ("kill", "fail", "cancel")}
"""What somebody must have asked for before a held intent signs anything."""


def broken_by_attempt(fact: Recorded) -> Iterator[str]:
    name, purpose = fact.id.key, fact.purpose
    if fact.held and not set(fact.asked.split()).intersection(_ORDERS.get(purpose, ())):
        yield f"{name} was held, and signed a {purpose} that nobody asked for"
    if fact.lane_state is LaneState.QUARANTINED or (fact.lane_state is LaneState.PAUSED and purpose is Purpose.FIRST):
        yield f"{name}: a {purpose} was signed on a lane that is {fact.lane_state}"
    if fact.stranger:
        yield f"{name} was signed by an owner that took over a lane whose nonce a stranger had used"


def broken_by_end(fact: Ended, *, killed: bool) -> Iterator[str]:
    """`killed`: a no-op was written ahead for it. One from before the hold ends it: that was decided, and durable."""
    if fact.id.key.startswith("raw:"):
        return  # bytes of a caller: other bytes at their number end them, and no operator has to
    decided = bool(set(fact.asked.split()) - {"track"}) or killed
    if fact.held and fact.outcome.tx_hash is None and not decided:
        yield f"{fact.id.key} was held, and ended {fact.outcome.status}, which nobody asked for"
