"""The order of one lane: what its sender does next. Pure: events come in through methods, actions come out of `turn`.

All of it can be rebuilt from the ledger and the chain; losing it costs look-ups, never money. What differs between
lanes that sign and lanes whose callers sign is in `signing_plan` and `keyless_plan`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from txmanager.core.chain import NonceView, SendReply, Traits, Verdict
from txmanager.core.flights import Flight, Flights, Order
from txmanager.core.gaps import Gaps
from txmanager.core.ledger import Taken
from txmanager.core.models import Attempt, Lane, Purpose
from txmanager.core.positions import place
from txmanager.core.states import LaneState
from txmanager.core.steps import Kill, Policy, Replace
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause
from txmanager.core.values import value
from txmanager.core.write_head import WriteHead

WORKING = (LaneState.ACTIVE, LaneState.DRAINING)
NO_WORD = (Verdict.BUSY, Verdict.ONE_AT_A_TIME, Verdict.RATE_LIMITED, Verdict.UNAVAILABLE, Verdict.UNKNOWN)
"""The node did not say what it thinks of the bytes: they are not refused, and may be on their way."""

Batch = Sequence[tuple[Flight, Attempt]]


# -- actions


@value(frozen=True, slots=True)
class FillGaps:
    """Sign no-ops for numbers that belong to nobody: nothing above them can land before."""

    nonces: Sequence[int]


@value(frozen=True, slots=True)
class SendFills:
    noops: Sequence[Attempt]


@value(frozen=True, slots=True)
class TrySigner:
    """Ask a signer that refused whether it signs again."""


@value(frozen=True, slots=True)
class Outbid:
    """Carry out a flight's order at the nonce that it has."""

    flight: Flight


@value(frozen=True, slots=True)
class AskFunds:
    """Ask again whether the lane can pay for what it stopped for."""


@value(frozen=True, slots=True)
class SendAgain:
    """Recorded bytes that no node took yet, lowest nonce first."""

    batch: Batch


@value(frozen=True, slots=True)
class SignAlone:
    """Carry out a flight's order at a new nonce; then nothing newer until it is seen."""

    flight: Flight


@value(frozen=True, slots=True)
class Take:
    """Sign the first attempts of so many queued intents."""

    room: int


Action = FillGaps | SendFills | TrySigner | Outbid | AskFunds | SendAgain | SignAlone | Take


@value(frozen=True, slots=True)
class Bid:
    """What stands at a nonce when a better price or a no-op is signed for it."""

    nonce: int
    rivals: Sequence[Attempt]
    noop: Attempt | None


class LanePlan(ABC):
    purpose: ClassVar[Purpose]
    """Why the first bytes of an intent are there."""

    def __init__(self, policy: Policy, traits: Traits, lane: Lane) -> None:
        self.traits = traits
        blocks = traits.gaps_block and not lane.keyless
        self.flights = Flights(policy, gaps_block=blocks)
        self.gaps = Gaps(policy, block=blocks)
        self.stored = lane
        """The lane as the ledger showed it last."""
        self.state = lane.state
        """What it is now, which may be newer."""
        self.head = WriteHead.of(lane)
        self.unsent: dict[str, tuple[Flight, Attempt]] = {}
        """Recorded attempts that no node took yet."""
        self.solo: Flight | None = None
        """What was signed alone, as long as nothing newer may follow it."""
        self._taking = True
        self._untaken = True
        """Whether the queue may hold entries that were not taken yet."""
        self._offered: Taken | None = None
        """The only entry that was not taken yet, as a wake-up brought it."""
        self.signed_ahead = False
        """Whether the next entries are signed already, or being signed, and wait for room."""
        self._resend = False
        self._ask_funds = False

    # -- how the lane stands

    @property
    def forgets(self) -> bool:
        """The ledger lost writes, and nobody said yet what they were."""
        return self.quarantined and self.stored.cause is QuarantineCause.ROLLED_BACK

    @property
    def lacks_funds(self) -> bool:
        return self.state is LaneState.PAUSED and self.stored.cause is PauseCause.FUNDS

    @property
    def tries_signer(self) -> bool:
        """The signer refused, or an operator goes on after a wrong signature: a trial signature comes first."""
        refused, asked = self.stored.cause is PauseCause.SIGNER_REFUSED, self.stored.command is LaneCommand.TRIAL
        return self.state is LaneState.PAUSED and (refused or asked)

    @property
    def quarantined(self) -> bool:
        return self.state is LaneState.QUARANTINED

    @property
    def signs_again(self) -> bool:
        """Whether a re-sign or a no-op may go out. A pause stops first attempts; a lack of funds stops all but the
        no-op that ends an intent, which may be the one that lacks them; a signer that is on trial stops all."""
        stopped = self.lacks_funds or self.tries_signer
        return self.state in WORKING or (self.state is LaneState.PAUSED and not stopped)

    @property
    def command(self) -> Lane | None:
        """The lane with what an operator asks of it, if anything."""
        return self.stored if self.state is LaneState.PAUSED and self.stored.command is not None else None

    @property
    def settled_nonce(self) -> int:
        """The highest nonce of ours that was settled, by whichever owner; -1 for none."""
        landed = self.stored.landed
        return max(self.gaps.landed, -1 if landed is None else landed)

    def foreign(self, view: NonceView) -> bool:
        """The chain has used a nonce that was never signed here."""
        return view.next_nonce > self.head.cursor and self.stored.cursor is not None and not self.stored.keyless

    def unexplained(self, view: NonceView) -> bool:
        """At a take-over: foreign, or (where overtaking kills) used by none of ours: by a stranger, or it was lost."""
        used, settled = view.next_nonce - 1, self.stored.landed if self.stored.landed is not None else -1
        ours = any(a.nonce == used for flight in self.flights for a in flight.record.attempts)
        stranger = used > max(settled, (self.stored.baseline or 0) - 1) and not ours
        return self.foreign(view) or (self.traits.overtaking_kills and stranger)

    # -- events

    def read(self, lane: Lane) -> None:
        """The lane as the ledger shows it now."""
        self.state, self.stored = lane.state, replace(lane, cursor=self.stored.cursor)

    def is_in(self, state: LaneState) -> None:
        """What is known of its state before the ledger shows the whole lane again."""
        self.state = state

    def quarantine(self, cause: QuarantineCause) -> None:
        self.state, self.stored = LaneState.QUARANTINED, replace(self.stored, reason=cause.value, cause=cause)

    def based_on(self, cursor: int, lane: Lane) -> None:
        """The lane has a baseline: its first, or one that an operator vouched for."""
        self.stored = replace(lane, cursor=cursor)
        self.head.moved(cursor)

    def went_alone(self, flight: Flight) -> None:
        self.solo = flight

    def take_again(self) -> None:
        """Something was appended, or was taken and not signed."""
        self._untaken, self._offered = True, None

    def offer(self, entry: Taken) -> None:
        """A wake-up brought what was appended. That is believed as far as it may be signed, if it is the only news."""
        if self._untaken or self._offered is not None or self.stored.keyless:
            self.take_again()
        else:
            self._offered = entry

    def accept_offer(self) -> Taken | None:
        """What a wake-up brought, once. Whoever does not write it ahead asks for a take."""
        entry, self._offered = self._offered, None
        if entry is not None and place(entry.position) <= place(self.head.last_id):
            self.take_again()  # it was taken already
            return None
        return entry

    def stop_taking(self) -> None:
        """The owner hands the lane back: what is in flight is settled, nothing new is signed."""
        self._taking = False

    def send_all_again(self) -> None:
        """A node seems to have lost something."""
        self._resend = True

    def ask_about_funds(self) -> None:
        """What the lane lacks funds for may be paid now, or be over."""
        self._ask_funds = True

    def take_begins(self) -> None:
        """What is appended from now on asks for another take."""
        self._untaken, self._offered = False, None

    def took(self, positions: Sequence[str], room: int) -> None:
        self._untaken = self._untaken or len(positions) == room
        if positions:
            self.head.took(positions[-1])

    def sending(self, batch: Batch, now: int) -> None:
        for flight, attempt in batch:
            flight.sent_at = now
            self.unsent[attempt.name] = (flight, attempt)

    def answered(self, flight: Flight, attempt: Attempt, reply: SendReply) -> bool:
        """A node's word about bytes that were sent; True when it took them."""
        flight.reply = reply
        if reply.verdict.sent:
            self.unsent.pop(attempt.name, None)
            return True
        self.refused(flight, reply)
        return False

    @abstractmethod
    def refused(self, flight: Flight, reply: SendReply) -> None:
        """A node did not take what was sent."""

    def rebroadcast(self) -> None:
        """After recovery, or when a node lost it: whatever may still land is sent again."""
        for flight in self.flights:
            if not flight.held:
                for attempt in flight.sendable:
                    self.unsent[attempt.name] = (flight, attempt)

    def see_chain(self, view: NonceView, now: int) -> list[int]:
        """Compare the chain's next nonce with all that is the lane's; answers which numbers are newly empty."""
        if not self.gaps.block or self.stored.cursor is None:
            return []
        settled = self.settled_nonce
        return self.gaps.saw(self.unowned(max(view.next_nonce, settled + 1)), now)

    # -- what to do

    @abstractmethod
    def turn(self, now: int, *, pausing: bool = False) -> Iterator[Action]:
        """What may be done now, most urgent first. The sender carries out one after the other until one did something;
        each is chosen when it is asked for, so what happened meanwhile counts. `pausing`: the last send was not taken,
        and the pause after it is not over."""

    @abstractmethod
    def go_on(self, batch: Batch, taken: int) -> Batch:
        """What of a batch is sent next when a node did not take one of it."""

    def start_turn(self) -> bool:
        """Forget what needs no send any more; True when everything open is to be sent again."""
        again, self._resend = self._resend, False
        if again:
            self.rebroadcast()
        self.drop_resolved()
        return again

    def drop_resolved(self) -> None:
        for name, (flight, attempt) in list(self.unsent.items()):
            if not self.known(flight) or flight.held or attempt not in flight.sendable or self._doomed(flight):
                del self.unsent[name]

    def known(self, flight: Flight) -> bool:
        return self.flights.get(flight.record.id) is flight

    def _doomed(self, flight: Flight) -> bool:
        """Never acceptable, on a chain where gaps are harmless: let others pass, the first that lands kills it."""
        doomed = flight.reply is not None and flight.reply.verdict is Verdict.PERMANENT
        return doomed and not self.traits.gaps_block

    def to_send(self) -> SendAgain:
        return SendAgain(sorted(self.unsent.values(), key=lambda pair: pair[1].nonce))

    def lowest_first(self, batch: Batch) -> Batch:
        """In the order of nonces; as they were signed, unless callers chose them."""
        return batch

    def room(self) -> int:
        """How many queued intents may be signed now."""
        news = self._untaken or self._offered is not None or self.signed_ahead
        return self.flights.room() if news and self.may_take() else 0

    def more_is_queued(self) -> bool:
        """Whether entries can be signed that were not taken yet."""
        return self._untaken and self.may_take()

    def may_take(self) -> bool:
        """Whether first attempts may be signed, and written ahead once they are: signing may have taken a while."""
        return self._taking and self.state in WORKING

    def gaps_due(self, now: int) -> list[int]:
        return self.gaps.due(now) if self.signs_again else []

    def unowned(self, start: int) -> list[int]:
        """Numbers from `start` on, below the cursor, that no attempt of the lane has."""
        owned = {a.nonce for f in self.flights for a in f.record.attempts}
        return self.gaps.unowned(range(start, self.head.cursor), owned)

    def may_sign(self, order: Order | None) -> bool:
        """A lane without funds signs nothing again, but for the no-op that ends an intent: that may bring it back."""
        return self.signs_again or (self.lacks_funds and isinstance(order, Kill))

    def may_sign_alone(self, flight: Flight, order: Order | None) -> bool:
        in_turn = self.known(flight) and not flight.ending and self.flights.clear_for(flight)
        return in_turn and self.may_sign(order) and flight.still(order)

    def bid(self, flight: Flight, order: Order | None) -> Bid | None:
        """What an order at the nonce that a flight has is about; None when it is not to be carried out any more."""
        if not self.known(flight) or not self.may_sign(order) or not flight.open:
            return None
        nonce = max(a.nonce for a in flight.open)
        rivals = [a for a in flight.record.attempts if a.nonce == nonce]
        noop = next((a for a in rivals if a.purpose is Purpose.NOOP), None)
        # The tracker may have decided before it saw what was recorded meanwhile: do nothing twice.
        newest = max(rivals, key=lambda a: a.signed_at)
        stale = isinstance(order, Replace) and order.over.name != newest.name
        if stale or (isinstance(order, Kill) and noop is not None):
            return None
        return Bid(nonce, rivals, noop)
