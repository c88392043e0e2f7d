"""What delivering webhooks has to remember: who delivers, how far, and what could not be delivered.

Losing any of it costs a second delivery, never a missing one: receivers recognise an event by its id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from txmanager.core.models import Json

DEAD_LIMIT = 10_000
"""Dead letters that are kept; beyond it the oldest go."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that its target did not take."""

    id: str
    pool: str
    target: str
    event: Mapping[str, Json]
    tries: int
    error: str
    at: int
    """Milliseconds since the epoch, when it was given up."""


class Mailbox(Protocol):
    async def hold(self, target: str, holder: str, for_ms: int) -> bool:
        """Be the one who delivers to a target; again before the time is over to stay it."""
        ...

    async def places(self, target: str) -> dict[str, str]:
        """By lane, the last event that needs no delivery any more."""
        ...

    async def advance(self, target: str, lane: str, event_id: str) -> None: ...

    async def bury(self, letter: DeadLetter) -> None: ...

    async def dead(self) -> list[DeadLetter]:
        """Newest first."""
        ...

    async def revive(self, id: str) -> DeadLetter | None:
        """Put a dead letter back for delivery; None when there is none of that id."""
        ...

    async def revived(self, target: str) -> Sequence[DeadLetter]: ...

    async def delivered(self, id: str) -> None:
        """A revived letter is through."""
        ...
