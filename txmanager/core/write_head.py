"""Where a lane writes: the next nonce, and how far its queue was read and signed, as this owner knows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from txmanager.core.models import Lane, Purpose, Record
from txmanager.core.positions import place


@dataclass(slots=True)
class WriteHead:
    """True as long as the owner's lease has not been over for a moment: what it remembers from before proves nothing,
    since another owner may have written, and a roll-back hidden it."""

    cursor: int
    signed_upto: str
    last_id: str
    given_up: dict[str, str] = field(default_factory=dict)
    """Attempts whose write-ahead was refused, by name, with their positions: an earlier copy may still arrive."""

    @classmethod
    def of(cls, lane: Lane) -> WriteHead:
        return cls(lane.cursor if lane.cursor is not None else 0, lane.signed_upto, lane.last_id)

    def stands_in(self, lane: Lane) -> bool:
        """Whether the ledger still has all that this owner wrote and read."""
        same = (self.cursor, self.signed_upto) == (lane.cursor, lane.signed_upto)
        return same and place(lane.last_id) >= place(self.last_id)

    def took(self, position: str) -> None:
        self.last_id = max(self.last_id, position, key=place)

    def moved(self, cursor: int) -> None:
        self.cursor = cursor

    def signed(self, position: str) -> None:
        self.signed_upto = position
        self.took(position)

    def gave_up(self, writes: Mapping[str, str]) -> None:
        self.given_up |= writes

    def own(self, records: Iterable[Record]) -> None:
        """Take over what a late copy of our own request wrote ahead after we had given it up."""
        for record, attempt in [(r, a) for r in records for a in r.attempts if a.name in self.given_up]:
            del self.given_up[attempt.name]
            self.cursor = max(self.cursor, attempt.nonce + 1)
            if attempt.purpose is Purpose.FIRST:  # where the record stands: a refused offer may have said otherwise
                self.signed_upto = max(self.signed_upto, record.position, key=place)

    def follow(self, lane: Lane) -> bool:
        """Whether the cursor is where it is because of a request of ours that had no answer, or arrived after it had
        been given up. The intent may have ended since, and its record be gone: then the cursor itself tells."""
        if lane.cursor is None:
            return False
        ours = {int(name.partition(":")[0]) for name in self.given_up}
        if lane.cursor > self.cursor and lane.cursor - 1 in ours:
            self.cursor, self.signed_upto = lane.cursor, lane.signed_upto
        return lane.cursor == self.cursor
