"""Numbers of somebody else's sequence that intents use up: a user's nonce inside a delegate.

The chain takes each number once, and of one sequence only in rising order. What comes second fails on chain, after the
lane has paid for it. So an intent whose number is not above that of every unsettled one of its lane is refused before
it is signed; and so is one whose number an unsettled intent of any other lane has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from txmanager.core.models import Intent, IntentId, Json, failure
from txmanager.core.values import value


@value(frozen=True, slots=True)
class Turn:
    """`sequence` names whose numbers they are; the same text for every intent that competes."""

    sequence: str
    number: int

    def place(self, lane: str, rank: int) -> IntentId:
        """Where the ledger keeps which intent has this number on the lane's network, whatever its pool and tenant. The
        next rank is free for another intent once the one before has ended. No pool can have this name."""
        chain, network, _ = lane.split(":", 2)
        digest = blake2b(f"{self.number} {self.sequence}".encode(), digest_size=20).hexdigest()
        return IntentId(f"turns:{chain}:{network}", f"{digest}:{rank}")


TurnReaders = Mapping[str, Callable[[Mapping[str, Json]], Turn | None]]
"""By kind of intent: which number a payload uses up."""


class Turns:
    """The highest number of each sequence that is unsettled on a lane."""

    def __init__(self, readers: TurnReaders, unsettled: Iterable[Intent]) -> None:
        self._readers = readers
        self._highest: dict[str, int] = {}
        for intent in unsettled:
            if (turn := self.turn_of(intent)) is not None:
                self._note(turn)

    def take(self, intent: Intent) -> dict[str, Json] | None:
        """None: the number is free, and this intent has it now. Otherwise the error that the intent ends with."""
        turn = self.turn_of(intent)
        if turn is None:
            return None
        highest = self._highest.get(turn.sequence)
        if highest is not None and turn.number <= highest:
            return failure(
                "nonce_in_use",
                f"nonce {turn.number} of {turn.sequence} is not above {highest}, which another intent of the lane uses "
                "now: it would fail on chain. Nothing was signed and nothing spent; sign a new one with a higher nonce",
                new_key_helps=False,
            )
        self._note(turn)
        return None

    def turn_of(self, intent: Intent) -> Turn | None:
        reader = self._readers.get(intent.kind)
        return reader(intent.payload) if reader is not None else None

    def _note(self, turn: Turn) -> None:
        self._highest[turn.sequence] = max(turn.number, self._highest.get(turn.sequence, turn.number))
