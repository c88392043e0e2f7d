"""The order of a lane that signs. Two rules keep it from hurting itself: a send that was not taken stops every higher
nonce, and a re-sign or a no-op at a nonce of its own goes out alone, when nothing it could overtake is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from txmanager.core.chain import SendReply, Verdict
from txmanager.core.flights import Flight
from txmanager.core.lane_plan import (
    NO_WORD,
    Action,
    AskFunds,
    Batch,
    FillGaps,
    LanePlan,
    Outbid,
    SendFills,
    SignAlone,
    Take,
    TrySigner,
)
from txmanager.core.models import Purpose
from txmanager.core.steps import Kill, Replace, Resign


class SigningPlan(LanePlan):
    purpose = Purpose.FIRST

    def refused(self, flight: Flight, reply: SendReply) -> None:
        if reply.verdict is Verdict.ONE_AT_A_TIME and not self.flights.single:
            self.flights.single = flight.sent_at
        if reply.verdict is Verdict.BUSY:
            self.flights.no_room(flight.sent_at)
        if reply.verdict is Verdict.NONCE_GAP and self.traits.gaps_block:
            self.send_all_again()  # a pool lost a lower nonce

    def turn(self, now: int, *, pausing: bool = False) -> Iterator[Action]:
        self.start_turn()
        if self.gaps:
            if due := self.gaps_due(now):
                yield FillGaps(due)
            if noops := self.gaps.unsent(now):
                yield SendFills(noops)
        if self.tries_signer:
            yield TrySigner()
        if (flight := self._to_outbid()) is not None:
            yield Outbid(flight)  # while it waits for its signature, the others go on
        if self._ask_funds:
            self._ask_funds = False
            if self.lacks_funds and self.stored.evidence.get("intent"):
                yield AskFunds()
        if self.unsent:
            yield self.to_send()
        elif orders := [f for f in self.flights if f.order is not None and not self._outbids(f)]:
            if (flight := self._to_sign_alone(orders)) is not None:
                yield SignAlone(flight)
        elif self.solo is None and (room := self.room()):
            yield Take(room)

    def go_on(self, batch: Batch, taken: int) -> Batch:
        """Nothing: what was not taken stops every higher nonce."""
        return ()

    def drop_resolved(self) -> None:
        super().drop_resolved()
        solo = self.solo
        if solo is not None:
            refused = solo.reply is not None and not solo.reply.verdict.sent and solo.reply.verdict not in NO_WORD
            if not self.known(solo) or solo.held or not solo.open or (refused and not self.unsent):
                self.solo = None

    def may_take(self) -> bool:
        """Nothing new goes out before the cursor is known, or before a dead intent that is to be signed again."""
        return super().may_take() and self.stored.cursor is not None and not self.flights.waiting

    def _to_outbid(self) -> Flight | None:
        """Where attempts share nonces: the lowest nonce that wants a better price or a no-op. It cannot wait for what
        is unsent, because it may be why that is. A lane that may not sign leaves the order: an action that does nothing
        would be asked for again and again."""
        if not self.traits.replaces:
            return None
        wanted = [f for f in self.flights if self._outbids(f) and self.may_sign(f.order)]
        return min(wanted, key=lambda f: max(a.nonce for a in f.record.attempts), default=None)

    def _outbids(self, flight: Flight) -> bool:
        return self.traits.replaces and isinstance(flight.order, Kill | Replace)

    def _to_sign_alone(self, orders: Sequence[Flight]) -> Flight | None:
        """While one goes alone, nothing else may follow, but for the no-op that kills it."""
        flight = next((f for f in orders if self.solo is None or self.solo is f), None)
        if flight is None or flight.held or not isinstance(flight.order, Resign):
            return flight
        # Signed again in stream order: an earlier one that waits goes first, as soon as it is decided.
        return flight if self.flights.first_waiting is flight else None
