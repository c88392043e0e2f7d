"""The next entries are read and signed while the last batch is on its way, so that a free slot is used at once.

Nothing of it is recorded or sent before its turn, and nothing rests on it: it counts only if the lane continues exactly
where it began, and the write-ahead compares it with the queue. Whatever is not usual about an entry is left to the take
that decides about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from txmanager.core.chain import Prepared
from txmanager.core.ledger import Taken
from txmanager.core.models import Attempt
from txmanager.runtime.lane.entries import Entries
from txmanager.runtime.lane.owner import OwnedLane

Ready = Sequence[tuple[Taken, Prepared]]
GOOD_FOR_S = 5.0
"""After that the entries are read and signed again: they may have been cancelled, or refer to an old block."""


@dataclass(slots=True)
class _Signed:
    after: str
    """The position that the lane has signed up to when the first of these is its next."""
    ready: Ready
    attempts: Sequence[Attempt]
    began: float


class Ahead:
    def __init__(
        self,
        lane: OwnedLane,
        entries: Entries,
        sign: Callable[[Sequence[Taken], int], Awaitable[tuple[Ready, Sequence[Attempt]]]],
    ) -> None:
        """`sign` answers the entries with their attempts, or nothing if one of them is not usual."""
        self._lane = lane
        self._entries = entries
        self._sign = sign
        self._task: asyncio.Task[_Signed | None] | None = None
        self._rest: _Signed | None = None

    def start(self, count: int) -> None:
        """If more is queued than was just signed. Bytes that may have to outbid others are priced when sent, and
        a signature that takes its time or costs money is asked for when it is needed."""
        lane = self._lane
        if lane.plan.signed_ahead or not lane.plan.more_is_queued() or lane.keyless or lane.chain.traits.replaces:
            return
        if count <= lane.context.read_ahead() and lane.chain.instant(lane.id):
            lane.plan.signed_ahead = True
            self._task = asyncio.create_task(self._read_and_sign(count))

    async def get(self, room: int) -> tuple[Ready, Sequence[Attempt]]:
        """What was signed ahead, for so much room; nothing, if it does not fit any more."""
        task, signed, self._task, self._rest = self._task, self._rest, None, None
        lane = self._lane
        lane.plan.signed_ahead = False
        if task is not None:
            signed = await task
        if signed is None:
            return [], []  # the queue had nothing more
        if not self._fits(signed):
            lane.plan.take_again()
            return [], []
        ready, attempts = signed.ready[:room], signed.attempts[:room]
        if len(signed.ready) > room:
            self._rest = _Signed(ready[-1][0].position, signed.ready[room:], signed.attempts[room:], signed.began)
            lane.plan.signed_ahead = True
        return ready, attempts

    def _fits(self, signed: _Signed) -> bool:
        head = self._lane.plan.head
        fresh = asyncio.get_running_loop().time() - signed.began < GOOD_FOR_S
        continues = head.signed_upto == signed.after and bool(signed.attempts)
        return fresh and continues and head.cursor == signed.attempts[0].nonce

    async def _read_and_sign(self, count: int) -> _Signed | None:
        lane, began = self._lane, asyncio.get_running_loop().time()
        after, cursor = lane.plan.head.signed_upto, lane.plan.head.cursor
        lane.plan.take_begins()
        taken = await self._entries.take(count)
        lane.plan.took([t.position for t in taken], count)
        if not taken:
            return None
        return _Signed(after, *await self._sign(taken, cursor), began)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
