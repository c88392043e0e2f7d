"""The sending half of a keyless lane: bytes that callers signed go out as they came, and none waits for another.

Numbers arrive in any order, because their owners send when they are ready; nodes keep what has a gap below it. So a
refusal stops nobody: bytes that a node had a word about wait for the tracker to ask again, bytes that no node had a
word about are sent again soon. Nothing is ever signed, replaced or killed here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from txmanager.core.chain import Verdict
from txmanager.core.flights import Flight
from txmanager.core.models import Attempt, Purpose
from txmanager.runtime.lane import WORKING, OwnedLane
from txmanager.runtime.sender import NO_WORD, Sender

_AWAY = (Verdict.UNAVAILABLE, Verdict.RATE_LIMITED)


class KeylessSender(Sender):
    purpose = Purpose.KEYLESS

    def __init__(self, lane: OwnedLane, rng: random.Random) -> None:
        super().__init__(lane, rng)
        self._again_at = 0.0

    async def _turn(self) -> bool:
        lane = self._lane
        if lane.resend:
            lane.resend = False
            self.rebroadcast()
            self._again_at = 0.0
        self._drop_resolved()
        if self._unsent and asyncio.get_running_loop().time() >= self._again_at:
            await self._send_unsent()
        room = lane.flights.room()
        if not (lane.fresh and lane.taking and lane.state in WORKING) or room == 0:
            return False
        return await self._take(room)

    async def _broadcast(self, batch: Sequence[tuple[Flight, Attempt]]) -> int:
        """Lowest number first, and on with the next when one is refused; answers how many were taken."""
        taken, rest = 0, sorted(batch, key=lambda pair: pair[1].nonce)
        while rest:
            took = await super()._broadcast(rest)
            taken += took
            if took == len(rest):
                break
            flight, attempt = rest[took]
            verdict = flight.reply.verdict if flight.reply is not None else Verdict.UNKNOWN
            if verdict in _AWAY:
                break  # the others would hear the same
            if verdict not in NO_WORD:
                self._unsent.pop(attempt.name, None)
            rest = rest[took + 1 :]
        lane = self._lane
        lane.resend = False  # what one node calls a gap is no reason to send everything again at once
        lane.flights.single = 0
        self._again_at = asyncio.get_running_loop().time() + self._pause_s
        return taken
