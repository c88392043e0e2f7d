"""The attempts of one lane in this owner's memory: what is out, what was seen, what may follow.

Everything here can be rebuilt from the ledger and the chain; losing it costs look-ups, never money.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from txmanager.core.chain import Proof, SendReply, Sighting, Verdict
from txmanager.core.decide import Kill, Observation, Policy, Replace, Resign
from txmanager.core.funds import Finding
from txmanager.core.ledger import Landed
from txmanager.core.models import Attempt, IntentId, Purpose, Record
from txmanager.core.states import Status
from txmanager.core.window import Window

Order = Resign | Kill | Replace
ON_CHAIN = ("included", "final")
_HELD, _NOOP = Status.HELD, Purpose.NOOP
SINGLE_FOR_MS = 3_600_000
"""After so long a wider window is tried again."""


@dataclass(slots=True)
class Flight:
    """One intent with attempts and no end yet."""

    record: Record
    sightings: dict[str, Sighting] = field(default_factory=dict)
    reply: SendReply | None = None
    sent_at: int = 0
    order: Order | None = None
    """A step that only the sender may carry out."""
    proofs: dict[str, Proof] = field(default_factory=dict)
    """Found by this owner, stored with the next write that needs them."""
    proved_at: int = 0
    unproven: bool = False
    """A proof of death was asked for, and there was none."""
    killable: bool = True
    """False once the chain said that the lane's key cannot sign a no-op."""
    retry_at: int = 0
    """Until when it is left alone: it broke its owner."""
    priced_out_until: int = 0
    """Until when no better price and no no-op is asked for: the last one would have passed the cap or the balance."""
    doubt: tuple[SendReply, Finding] | None = None
    """A refusal for want of funds, and what the balance said to it."""
    noop_at: int | None = None
    """The nonce of a no-op that is being written ahead: whether it is recorded is not known yet."""
    ending: bool = False
    """Its end is being stored: a no-op that is recorded now could land after its record is gone."""

    def where(self, attempt: Attempt) -> Literal["unknown", "pending", "included", "final"]:
        sighting = self.sightings.get(attempt.name)
        return sighting.where if sighting else "unknown"

    def on_chain(self, attempt: Attempt) -> bool:
        sighting = self.sightings.get(attempt.name)
        return sighting is not None and sighting.where in ON_CHAIN

    @property
    def open(self) -> list[Attempt]:
        """Attempts that may still land and were not seen to: what others must not overtake."""
        attempts = self.record.attempts
        if len(attempts) == 1:  # as most have: every pass over a lane asks this of every flight
            [only] = attempts
            shut = only.proof is not None or only.name in self.proofs or (self.sightings and self.on_chain(only))
            return [] if shut else [only]
        live = self.record.live
        used = {a.nonce for a in live if self.on_chain(a)} if self.sightings else ()
        return [a for a in live if a.nonce not in used and a.name not in self.proofs]

    @property
    def undecided(self) -> list[Attempt]:
        """Attempts neither on chain nor proven dead, rivals of one that is on chain included: a block can be undone."""
        return [a for a in self.record.live if a.name not in self.proofs and not self.on_chain(a)]

    @property
    def final(self) -> list[Landed]:
        """What of it is in a final block, its no-op included."""
        return [
            Landed(a.nonce, a.hash, a.raw, self.record.id.text)
            for a in self.record.attempts
            if self.where(a) == "final"
        ]

    @property
    def landed(self) -> bool:
        return bool(self.sightings) and any(self.on_chain(a) for a in self.record.effects)

    @property
    def sendable(self) -> list[Attempt]:
        """What a rebroadcast sends: once a no-op is recorded, it alone and no longer what it kills; of several at
        one nonce the newest, which is the dearest."""
        noops = [a for a in self.open if a.purpose is Purpose.NOOP]
        newest = {a.nonce: a for a in sorted(noops or self.open, key=lambda a: a.signed_at)}
        return list(newest.values())

    @property
    def dead(self) -> bool:
        """Every effect is proven dead: it waits to be signed again, or to end."""
        # A plain loop: every pass and every turn asks this of every flight, and mostly the first attempt answers.
        for attempt in self.record.attempts:
            if attempt.purpose is not _NOOP and attempt.proof is None and attempt.name not in self.proofs:
                return False
        return True

    @property
    def out_of_the_way(self) -> bool:
        """Taken by a node, never to be taken, or said to be dead: nothing needs to wait for it."""
        taken = self.reply is not None and self.reply.verdict.sent
        return taken or self.unproven or (self.reply is not None and self.reply.verdict is Verdict.PERMANENT)

    def still(self, order: Order | None) -> bool:
        """Whether an order fits the record as it is now: it may have been decided before the last write."""
        if isinstance(order, Resign):
            dead = all(a.dead or a.name in order.deaths for a in self.record.effects)
            return dead and not self.record.cancel_requested  # cancelled meanwhile: it ends as it is
        return order is not None and not any(a.purpose is Purpose.NOOP for a in self.open)

    @property
    def held(self) -> bool:
        return self.record.status is _HELD


class Flights:
    """All flights of a lane, in stream order."""

    def __init__(self, policy: Policy, *, gaps_block: bool = False) -> None:
        self._policy = policy
        self._gaps_block = gaps_block
        self.window = Window(policy.window, policy.max_window if policy.window > 1 else 1)
        self._by_id: dict[str, Flight] = {}
        self.single = 0
        """Since when the chain takes one of the account at a time (a window of 1, whatever the policy says), or 0."""
        self._lowest = (-1, 0)
        """The lowest open nonce, and since when; 0 when it was so before this owner."""
        self.used = -1
        """The highest nonce that the chain has used, as it was read last."""
        self._highest = -1
        """The highest nonce that was seen on chain, also of flights that have ended since."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._by_id.values())

    def add(self, flight: Flight) -> None:
        self._by_id[flight.record.intent.id.text] = flight

    def get(self, id: IntentId) -> Flight | None:
        return self._by_id.get(id.text)

    def remove(self, id: IntentId) -> None:
        self._by_id.pop(id.text, None)

    def replace_all(self, flights: Iterable[Flight]) -> None:
        self._by_id = {flight.record.id.text: flight for flight in flights}

    def saw_used(self, nonce: int) -> None:
        self.used = nonce

    def room(self) -> int:
        """How many intents may be taken now."""
        strict = self._policy.window == 1
        busy = over = held = 0
        for flight in self._by_id.values():
            if flight.record.status is _HELD:
                if not self.blocks(flight):
                    over += 1
                elif strict or self._gaps_block:
                    return 0
            elif strict or not ((flight.reply is not None and flight.reply.reached) or flight.landed):
                busy += 1  # the chain's nonce has not come as far as this
                held += flight.reply is not None and flight.reply.verdict.sent
        self.window.holds(held)
        window = 1 if self.single else self.window.size
        return max(0, min(window - busy, self._policy.max_inflight - (len(self) - over)))

    def no_room(self, now: int) -> None:
        """A node refused bytes for want of room."""
        taken = (f.reply is not None and f.reply.verdict.sent and not f.landed for f in self._by_id.values())
        self.window.no_room(sum(taken), now)

    def blocks(self, flight: Flight) -> bool:
        """Whether others have to wait for a held intent: not once its numbers are used, whatever became of it."""
        used = max(self.used, self._highest)
        return any(attempt.nonce > used for attempt in flight.open)

    def highest_on_chain(self) -> int:
        for flight in self._by_id.values():
            if flight.sightings:
                for attempt in flight.record.attempts:
                    if attempt.nonce > self._highest and flight.on_chain(attempt):
                        self._highest = attempt.nonce
        return self._highest

    def unsent_below(self, nonce: int) -> bool:
        """A lower nonce may still land and is not known to be with a node: sending a higher one could overtake it."""
        return any(
            attempt.nonce < nonce and not flight.held and not flight.out_of_the_way
            for flight in self
            for attempt in flight.sendable
        )

    @property
    def waiting(self) -> bool:
        """A dead intent is to be signed again, so nothing new is sent before it."""
        return self.first_waiting is not None

    @property
    def first_waiting(self) -> Flight | None:
        for flight in self._by_id.values():
            # Asked at every turn of every flight: nothing is dead without a proof.
            if not flight.proofs and flight.record.attempts[0].proof is None:
                continue
            if flight.dead and not flight.held:
                return flight
        return None

    def clear_for(self, flight: Flight) -> bool:
        """Nothing else could be overtaken by a new nonce: all others are on chain, dead or held."""
        return all(f is flight or f.held or not f.open for f in self)

    def observe_all(
        self, *, queue_empty: bool, now: int = 0, floor: int | None = None
    ) -> list[tuple[Flight, Observation]]:
        """Every flight with what was seen of it and of the lane; one pass, however many there are. `floor` is a nonce
        of nobody that all above it wait for."""
        # Nothing new is about to be sent: nothing is queued, or it waits for a re-sign or for room in the window.
        highest, quiet = self.highest_on_chain(), queue_empty or self.waiting or self.room() == 0
        nonces = [(f, [a.nonce for a in f.open]) for f in self._by_id.values()]
        open_ones = [f for f, some in nonces if some]
        in_the_way = [f for f in open_ones if not f.held]
        # "None but itself", asked of every flight: at most one is open, and if one is, then it.
        alone, unopposed = len(open_ones) <= 1, len(in_the_way) <= 1
        lowest = min([min(some) for _, some in nonces if some], default=-1)
        if floor is not None and floor < lowest:
            lowest = floor
        if lowest != self._lowest[0]:
            self._lowest = (lowest, now if self._lowest[0] >= 0 else 0)
        if self.single and now - self.single > SINGLE_FOR_MS:
            self.single = 0
        self.window.later(now)
        return [
            (
                flight,
                Observation(
                    sightings=flight.sightings,
                    proofs=flight.proofs,
                    reply=flight.reply,
                    sent_at=flight.sent_at,
                    overtaken=bool(some) and min(some) < highest,
                    clear=unopposed and (not in_the_way or in_the_way[0] is flight),
                    idle=quiet and alone and (not open_ones or open_ones[0] is flight),
                    unproven=flight.unproven,
                    killable=flight.killable,
                    lowest=lowest in some,
                    lowest_since=self._lowest[1],
                    priced_out=now < flight.priced_out_until,
                    means=flight.doubt[1] if flight.doubt is not None and flight.doubt[0] is flight.reply else None,
                ),
            )
            for flight, some in nonces
        ]
