"""The sending half of a lane: the only one who signs, writes ahead and broadcasts.

What comes next is the plan's to say (`core/lane_plan`). This carries it out, one action after the other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable

from txmanager.core.flights import Flight
from txmanager.core.lane_plan import (
    Action,
    AskFunds,
    FillGaps,
    Outbid,
    SendAgain,
    SendFills,
    SignAlone,
    Take,
    TrySigner,
)
from txmanager.runtime.lane.breaks import is_break
from txmanager.runtime.lane.first_attempts import FirstAttempts
from txmanager.runtime.lane.later_attempts import LaterAttempts
from txmanager.runtime.lane.outbox import Outbox
from txmanager.runtime.lane.owner import OwnedLane
from txmanager.runtime.lane.shortage import Shortage
from txmanager.runtime.lane.signatures import NotYet, Slot

_SLOTS: dict[type[Action], Slot] = {
    FillGaps: Slot.FILL,
    TrySigner: Slot.TRIAL,
    Outbid: Slot.OUTBID,
    SignAlone: Slot.ORDER,
    Take: Slot.FIRST,
}
"""What an action needs a signature for."""


class Sender:
    def __init__(self, lane: OwnedLane, rng: random.Random) -> None:
        self._lane = lane
        self._outbox = Outbox(lane, rng)
        self._shortage = Shortage(lane)
        self._first = FirstAttempts(lane, self._outbox, self._shortage)
        self._later = LaterAttempts(lane, self._outbox, self._shortage)

    async def run(self) -> None:
        lane = self._lane
        try:
            while True:
                lane.work.clear()
                lane.check_lease()
                lane.sending = True
                try:
                    busy = await self._turn()
                finally:
                    lane.sending = False
                if busy:
                    self._outbox.went_on()
                    continue
                if not lane.plan.unsent:
                    await lane.work.wait()
                    continue
                try:
                    async with asyncio.timeout(self._outbox.pause_s):
                        await lane.work.wait()
                except TimeoutError:
                    pass
        finally:
            lane.signatures.close()
            self._first.close()

    async def _turn(self) -> bool:
        """The first of the plan's actions that did something; False when there is nothing to do now."""
        lane = self._lane
        for action in lane.plan.turn(lane.context.clock(), pausing=self._outbox.pausing):
            slot = _SLOTS.get(type(action))
            if slot is not None and lane.signatures.waits(slot):
                continue
            try:
                if await self._carry_out(action):
                    return True
            except NotYet:
                continue  # the lane is woken when the signature is there
        return False

    async def _carry_out(self, action: Action) -> bool:
        """Whether it did something, so that the plan is asked anew."""
        lane = self._lane
        match action:
            case FillGaps(nonces=nonces):
                await lane.gaps.fill(nonces)
                return False
            case SendFills(noops=noops):
                await lane.gaps.send(noops)
                return True
            case TrySigner():
                await lane.signatures.probe()
                return False
            case Outbid(flight=flight):
                return await self._alone(flight, self._later.outbid(flight))
            case AskFunds():
                if not await self._shortage.over():
                    return False
                await lane.resume("what it waited for can be paid, or is over")
                return True
            case SendAgain(batch=batch):
                taken = await self._outbox.send(batch)
                lane.context.metrics.rebroadcasts.labels(lane.id).inc(taken)
                return taken == len(batch)
            case SignAlone(flight=flight):
                return await self._alone(flight, self._later.sign_alone(flight))
            case Take(room=room):
                return await self._first.take(room)

    async def _alone(self, flight: Flight, work: Awaitable[bool]) -> bool:
        """What breaks on one intent is counted against it, and stops nobody else."""
        order = flight.order
        try:
            return await work
        except NotYet:
            flight.order = flight.order or order  # carried out when it is signed, if nobody decided anew meanwhile
            raise
        except Exception as error:
            if not is_break(error):
                raise
            await self._lane.breaks.of_flight(flight, error)
            return False
