"""The life of an intent and of a lane: one table of legal transitions, enforced by every ledger.

queued ──> inflight ──> done
  │           ├───────> failed      (needs a proof that none of its bytes can land any more)
  │           ├───────> cancelled   (its no-op is final and none of its hashes landed)
  │           └──> held ──> done | failed | cancelled | inflight
  ├──> failed                       (before anything was signed)
  ├──> cancelled
  └──> held ──> queued | cancelled  (set aside before anything was signed: its seal is not right)
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache


class Status(StrEnum):
    """Where an intent is. Each member says who moves it on, and what a crash leaves behind."""

    QUEUED = "queued"
    """Accepted and durable; nothing signed. The lane's owner moves it on, or a cancel. A crash leaves it in place:
    the next owner takes it in the same order."""

    INFLIGHT = "inflight"
    """An attempt is written ahead: its bytes may be on chain, may be on the way, may never have been sent. The owner
    looks it up, rebroadcasts the same bytes, and settles at finality. A crash leaves the attempt to the next owner."""

    HELD = "held"
    """It cannot go on without an operator; reason and evidence are on the record. Mostly an attempt exists, and workers
    keep looking: a hash that lands settles it by itself. Without an attempt it was set aside because its seal is not
    right: it left the queue, the lane goes on, and an operator cancels or reseals it."""

    DONE = "done"
    """Final: the effect is on chain, once. Every retry is answered from the stored outcome."""

    FAILED = "failed"
    """Final: no effect, or one that failed on chain. The error says what was spent and whether a new key helps."""

    CANCELLED = "cancelled"
    """Final: withdrawn before it was signed, or killed by a no-op that is final."""

    @property
    def final(self) -> bool:
        return self in FINAL


FINAL = frozenset({Status.DONE, Status.FAILED, Status.CANCELLED})

TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.INFLIGHT, Status.FAILED, Status.CANCELLED, Status.HELD}),
    Status.INFLIGHT: frozenset({Status.DONE, Status.FAILED, Status.CANCELLED, Status.HELD}),
    Status.HELD: frozenset({Status.DONE, Status.FAILED, Status.CANCELLED, Status.INFLIGHT, Status.QUEUED}),
    Status.DONE: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
}


def legal(before: Status, after: Status) -> bool:
    return after in TRANSITIONS[before]


@cache
def sources(after: Status) -> frozenset[Status]:
    """The states an intent may be in just before `after`."""
    return frozenset(before for before, targets in TRANSITIONS.items() if after in targets)


class LaneState(StrEnum):
    """Whether a lane works. A lane is quarantined; an intent is held."""

    ACTIVE = "active"
    """Takes new claims and works."""

    DRAINING = "draining"
    """No new claims are routed here; existing claims still append and are worked off."""

    PAUSED = "paused"
    """Accepts appends, signs no first attempts. By an operator, or by the owner while funds are missing."""

    QUARANTINED = "quarantined"
    """Accepts appends, signs nothing at all: a promise might not hold. Leaves only by an operator's word."""

    CLOSED = "closed"
    """For ever: holds no record, accepts nothing, cannot be registered again."""


LANE_TRANSITIONS: dict[LaneState, frozenset[LaneState]] = {
    LaneState.ACTIVE: frozenset({LaneState.DRAINING, LaneState.PAUSED, LaneState.QUARANTINED}),
    LaneState.DRAINING: frozenset({LaneState.ACTIVE, LaneState.PAUSED, LaneState.QUARANTINED, LaneState.CLOSED}),
    LaneState.PAUSED: frozenset({LaneState.ACTIVE, LaneState.DRAINING, LaneState.QUARANTINED}),
    LaneState.QUARANTINED: frozenset({LaneState.ACTIVE, LaneState.DRAINING, LaneState.PAUSED}),
    LaneState.CLOSED: frozenset(),
}


def lane_sources(after: LaneState) -> frozenset[LaneState]:
    return frozenset(before for before, targets in LANE_TRANSITIONS.items() if after in targets)
