"""What one caller may use of what all share: requests per second, and room in the queues.

Rates are kept in one place for all processes. Room is counted where it is used, in each lane, by the step that accepts
an intent and by the one that ends it: a crash leaves no count behind. A lane without a live intent owes nobody
anything, so a count that an older release left too high ends there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from txmanager.core.values import value

OVERHEAD_BYTES = 1_024
"""What an intent takes in a ledger beside what its caller sent: record, entry, events."""


@value(frozen=True, slots=True)
class Share:
    """Who pays for the room of an entry, how much it is, and how much that caller may have in one lane."""

    owner: str
    size: int
    most: int | None = None
    most_bytes: int | None = None


@value(frozen=True, slots=True)
class Room:
    """What an owner's live intents use."""

    count: int = 0
    size: int = 0


@value(frozen=True, slots=True)
class Drawn:
    granted: int
    wait_ms: int = 0
    """With nothing granted: when there will be one."""


class Quotas(Protocol):
    async def draw(self, name: str, per_second: float, burst: int, want: int) -> Drawn:
        """Take up to `want` from a bucket that all processes share. A lost reply costs what it granted."""
        ...

    async def room(self, owner: str, pools: Collection[str] | None = None) -> Room:
        """What the owner's live intents use in all lanes of the pools (None: of all)."""
        ...


def refill(left: float, elapsed_ms: int, per_second: float, burst: int) -> float:
    return min(float(burst), left + max(0, elapsed_ms) * per_second / 1000)
