"""The order of a keyless lane: bytes that callers signed go out as they came, and none waits for another.

Numbers arrive in any order, because their owners send when they are ready; nodes keep what has a gap below it. So a
refusal stops nobody: bytes that a node had a word about wait for the tracker to ask again, bytes that no node had a
word about are sent again soon. Nothing is ever signed, replaced or killed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from txmanager.core.chain import SendReply, Verdict
from txmanager.core.flights import Flight
from txmanager.core.lane_plan import NO_WORD, Action, Batch, LanePlan, Take
from txmanager.core.models import Purpose

_AWAY = (Verdict.UNAVAILABLE, Verdict.RATE_LIMITED)


class KeylessPlan(LanePlan):
    purpose = Purpose.KEYLESS

    def refused(self, flight: Flight, reply: SendReply) -> None:
        """What one node calls a gap is no reason to send everything again at once."""

    def turn(self, now: int, *, pausing: bool = False) -> Iterator[Action]:
        again = self.start_turn()
        if self.unsent and (again or not pausing):
            yield self.to_send()
        if room := self.room():
            yield Take(room)

    def lowest_first(self, batch: Batch) -> Batch:
        return sorted(batch, key=lambda pair: pair[1].nonce)

    def go_on(self, batch: Batch, taken: int) -> Batch:
        """What is behind the refused one, unless it would hear the same."""
        flight, attempt = batch[taken]
        verdict = flight.reply.verdict if flight.reply is not None else Verdict.UNKNOWN
        if verdict in _AWAY:
            return ()
        if verdict not in NO_WORD:
            self.unsent.pop(attempt.name, None)
        return batch[taken + 1 :]
