"""The queue of a lane as its owner reads it: a few entries ahead, so that a small window does not ask for each one.

Nothing rests on what was read ahead. It is handed out only while everything before it was signed; the rest is read
again; and the write-ahead compares it with the queue, as it does with everything. A signer that is slow or paid for
each signature gets nothing that was read ahead: an entry may have been cancelled since.
"""

from __future__ import annotations

import asyncio

from txmanager.core.ledger import Taken
from txmanager.runtime.lane.owner import OwnedLane

_FEW = 4
"""With so much room or more, every take is worth its round trip. Many lanes that skip it sign in the same moment, and
then wait for each other's write-ahead: at 20 ms of network, 8 lanes with a window of 16 lost a seventh."""
_GOOD_FOR_S = 5.0
"""Older entries are read again: they may have been cancelled."""


class Entries:
    def __init__(self, lane: OwnedLane) -> None:
        self._lane = lane
        self._next: list[Taken] = []
        self._read_at = 0.0
        self._handed = ""
        """The position of the last entry that was handed out."""

    async def take(self, room: int) -> list[Taken]:
        """The oldest entries that are not signed, as many as there is room for."""
        lane = self._lane
        if len(self._next) < room or not self._stand():
            count = max(room, lane.context.read_ahead()) if room < _FEW and lane.chain.instant(lane.id) else room
            self._next = await lane.retry_while_leased(lambda: lane.context.ledger.take(lane.fence, count))
            self._read_at = asyncio.get_running_loop().time()
        given, self._next = self._next[:room], self._next[room:]
        if given:
            self._handed = given[-1].position
        return given

    def _stand(self) -> bool:
        """Whether what was read is what a take would answer: all that was handed out was signed, and nothing else."""
        fresh = asyncio.get_running_loop().time() - self._read_at < _GOOD_FOR_S
        return fresh and self._lane.plan.head.signed_upto == self._handed
