"""What a lane may still spend: its balance as last read, less what its recorded attempts may take.

A reading is kept for as long as it alone says that there is enough: the ordinary intent of a lane with funds asks
nobody. Everything that the lane decides about funds rests on `Wallet.read`, and on the rule in `core/funds`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from txmanager.core.chain import NonceView, Prepared, Unpriced
from txmanager.core.errors import Busy, InvalidInput, KeyMissing, Unavailable
from txmanager.core.flights import Flight
from txmanager.core.funds import FREE, Cost, Finding, Funds, Reserve, Word, dearest, judge, total
from txmanager.core.ledger import Taken
from txmanager.core.models import Attempt, Json, failure

if TYPE_CHECKING:
    from txmanager.runtime.lane.owner import OwnedLane

_ALONE_S = 60.0

Wanted = tuple[Taken, Prepared | Unpriced]


@dataclass(frozen=True, slots=True)
class Short:
    """Where a batch stops for want of funds: it and everything after it stay queued."""

    entry: Taken
    word: Word
    """Wait or pause."""
    finding: Finding | None
    message: str


@dataclass(frozen=True, slots=True)
class Sifted:
    """A batch by what the lane can pay for, in order."""

    ready: list[tuple[Taken, Prepared]]
    failed: list[tuple[Taken, dict[str, Json]]]
    short: Short | None = None


class Wallet:
    def __init__(self, lane: OwnedLane) -> None:
        self._lane = lane
        self._reserve = Reserve(lane.policy.reserve, lane.policy.max_deposit)
        self._funds: Funds | None = None
        self._out = FREE
        """What may still be taken from `_funds`: by what was in flight when it was read, and what was let go since."""
        self._watch_s = lane.policy.include_within_ms / 1000
        """How long a low balance is watched before anything ends or stops for it: refunds take a few blocks."""
        self._readings: deque[tuple[float, Funds]] = deque()
        """All readings of the last two such spans, by the loop's time."""
        self._view: NonceView | None = None
        self._alone_since: float | None = None
        """Since when too few nodes answer to say that funds are missing."""
        self.waits = False
        """The head of the queue waits for what is in flight: nothing new follows that."""

    def see(self, funds: Funds | None) -> None:
        """A reading of the chain, whatever it was made for."""
        if funds is not None:
            self._funds, self._out = funds, self._committed(funds.height)
            self._readings.append((asyncio.get_running_loop().time(), funds))

    async def read(self) -> Funds | None:
        """The lane's funds now; None when nobody says. An intent that ends for want of funds ends by this reading."""
        lane = self._lane
        try:
            view = await lane.chain.nonce(lane.id)
        except KeyMissing:
            return None
        if view.balance is not None:
            lane.context.metrics.balance.labels(lane.id).set(view.balance)
        self._view = view
        self.see(view.funds)
        return view.funds

    # -- before signing

    async def sift(self, wanted: Sequence[Wanted]) -> Sifted:
        """What is let go, what fails alone, and where the batch stops."""
        self.waits = False
        ready = [(entry, one) for entry, one in wanted if isinstance(one, Prepared)]
        costs = total([one.cost for _, one in ready if one.cost is not None])
        if self._lane.keyless or (len(ready) == len(wanted) and self._covers(costs)):
            return Sifted(ready, [])
        funds = await self._lane.retry_while_leased(self.read)
        if funds is None:
            return Sifted(ready, [])  # nobody says: let a node tell
        sifted = Sifted([], [])
        for entry, one in wanted:
            word, found = await self._judge(one, funds)
            if word is Word.FAIL:
                sifted.failed.append((entry, _error(found)))
            elif word is Word.PROCEED and isinstance(one, Prepared):
                self._out = total([self._out, one.cost or FREE])
                sifted.ready.append((entry, one))
            else:
                self.waits = word is Word.WAIT
                message = one.message if isinstance(one, Unpriced) else found.message
                return Sifted(sifted.ready, sifted.failed, Short(entry, word, found, message))
        return sifted

    async def weigh(self, one: Prepared | Unpriced) -> Finding | None:
        """The word on one intent alone, as it is signed again or asked about; None when nobody says."""
        funds = await self._lane.retry_while_leased(self.read)
        if funds is None:
            return None
        word, found = await self._judge(one, funds)
        return Finding(word, found.purse, found.needs)

    async def _judge(self, one: Prepared | Unpriced, funds: Funds) -> tuple[Word, Finding]:
        if isinstance(one, Prepared):
            return await self._agreed(one.cost or FREE, funds, self._out)
        word, found = await self._agreed(one.at_least, funds, self._out)
        if word is not Word.PROCEED:
            return word, found
        # What it costs at least is there, and the chain says that it is not enough.
        return (Word.WAIT if any(flight.open for flight in self._lane.plan.flights) else Word.PAUSE), found

    async def _agreed(self, cost: Cost, funds: Funds, committed: Cost) -> tuple[Word, Finding]:
        """Where there are several nodes, no intent ends and no lane stops by the word of one."""
        word, found = self._sure(cost, funds, committed)
        if word < Word.FAIL:
            return word, found
        highest = await self._of_all_nodes(funds)
        return self._sure(cost, highest, committed) if highest is not None else self._later(found)

    async def _of_all_nodes(self, funds: Funds) -> Funds | None:
        """The highest balance that any node tells; None while too few of them answer. Nothing is signed then, so that
        one node's word is enough after a while: a node that is gone must not keep the lane waiting."""
        lane, now = self._lane, asyncio.get_running_loop().time()
        if self._view is None:
            return funds
        try:
            views = (await lane.chain.readings(lane.id, self._view)).by_node.values()
        except (Unavailable, Busy):
            self._alone_since = self._alone_since or now
            return funds if now - self._alone_since >= _ALONE_S else None
        self._alone_since = None
        return reduce(Funds.highest, [view.funds for view in views if view.funds is not None], funds)

    def _later(self, found: Finding) -> tuple[Word, Finding]:
        asyncio.get_running_loop().call_later(self._watch_s, self._lane.wake)
        return Word.WAIT, found

    def _sure(self, cost: Cost, funds: Funds, committed: Cost) -> tuple[Word, Finding]:
        """Where gas that was paid ahead comes back later, a low balance may be so for a moment. Nothing ends and
        nothing stops for that: what the highest balance of a while does not change, or could not, is sure."""
        found = judge(cost, funds, committed, self._reserve)
        if found.word < Word.FAIL or not funds.refunds:
            return found.word, found
        now = asyncio.get_running_loop().time()
        while self._readings and now - self._readings[0][0] > 2 * self._watch_s:
            self._readings.popleft()
        best = reduce(lambda high, one: high.highest(one[1]), self._readings, funds)
        likely = judge(cost, best, committed, self._reserve)
        watched = bool(self._readings) and now - self._readings[0][0] >= self._watch_s
        if likely.word >= Word.FAIL and (watched or likely.needs > 2 * likely.purse.balance):
            return likely.word, likely
        return self._later(found)

    def _covers(self, cost: Cost) -> bool:
        """Whether the last reading alone says that there is enough."""
        if self._funds is None:
            return False
        after = total([self._out, cost])
        for purse in self._funds.purses:
            kept = self._reserve.wanted or 0 if purse.deposits else 0
            if purse.share(after) + kept > purse.balance:
                return False
        self._out = after
        return True

    # -- after write-ahead

    async def doubt(self, flights: Sequence[Flight]) -> None:
        """A node refused these for want of funds: compare each with the whole balance."""
        try:
            funds = await self.read()
        except (Unavailable, Busy):
            return  # asked again at the next look
        for flight in flights:
            if funds is None or flight.reply is None:
                continue
            effects = [a for a in flight.open if a in flight.record.effects] or flight.open
            cheapest = min((self._cost(a) for a in effects), key=lambda c: (c.deposit, c.fee), default=FREE)
            word, found = await self._agreed(cheapest, funds, FREE)
            flight.doubt = (flight.reply, Finding(word, found.purse, found.needs))

    async def pays(self, noop: Attempt) -> Finding | None:
        """None when the lane can pay for a no-op, reserve or not; else what is missing."""
        funds = await self._lane.retry_while_leased(self.read)
        if funds is None:
            return None
        found = judge(self._cost(noop), funds, FREE, Reserve())
        if found.word is not Word.PROCEED:
            found = judge(self._cost(noop), await self._of_all_nodes(funds) or funds, FREE, Reserve())
        return None if found.word is Word.PROCEED else found

    def _committed(self, height: int) -> Cost:
        """What recorded attempts may still take from a balance read at a height; of one number only one does."""
        lane = self._lane
        costs = [
            dearest([self._cost(a) for a in lane.plan.gaps.fills if a.nonce == n])
            for n in _numbers(lane.plan.gaps.fills)
        ]
        for flight in lane.plan.flights:
            paid = {a.nonce for a in flight.record.attempts if _paid(flight, a, height)}
            still = [a for a in flight.record.live if a.name not in flight.proofs and a.nonce not in paid]
            costs += [dearest([self._cost(a) for a in still if a.nonce == n]) for n in _numbers(still)]
        return total(costs)

    def _cost(self, attempt: Attempt) -> Cost:
        try:
            return self._lane.chain.cost(attempt)
        except InvalidInput:  # bytes that cannot be read say nothing of their cost: a node tells
            return FREE


def _numbers(attempts: Sequence[Attempt]) -> set[int]:
    return {attempt.nonce for attempt in attempts}


def _paid(flight: Flight, attempt: Attempt, height: int) -> bool:
    """Whether a balance read at a height was read after this landed."""
    seen = flight.sightings.get(attempt.name)
    return seen is not None and flight.on_chain(attempt) and seen.height is not None and seen.height <= height


def _error(found: Finding) -> dict[str, Json]:
    evidence = {"needs": str(found.needs), "balance": str(found.purse.balance), "purse": found.purse.name}
    return failure("insufficient_funds", found.message, new_key_helps=True, **evidence)
