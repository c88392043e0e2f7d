"""What this process sends: one at a time of each sender, whoever asks for it, and remembered for a while.

The memory serves when the store is away or just came back, while the chain's count still lags.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from txmanager.core.chain import SendReply
from txmanager.core.upstream import Upstream

_REMEMBERED = 100_000
_FOR_S = 30.0
"""Later the chain's own count says it."""


class Sends:
    def __init__(self, upstream: Upstream, now: Callable[[], float] = monotonic) -> None:
        self._upstream = upstream
        self._now = now
        self._next: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def sent_upto(self, sender: str) -> int:
        """The first nonce after those that a node took from this process lately; 0 when it took none."""
        nonce, at = self._next.get(sender, (0, 0.0))
        return nonce if self._now() - at < _FOR_S else 0

    async def send(self, sender: str, nonce: int, raw: bytes, hash: str, may: Callable[[], bool]) -> SendReply:
        lock, users = self._locks.get(sender, (asyncio.Lock(), 0))
        self._locks[sender] = (lock, users + 1)
        try:
            async with lock:
                reply = await self._upstream.send(sender, raw, hash, may)
        finally:
            lock, users = self._locks[sender]
            if users == 1:
                del self._locks[sender]
            else:
                self._locks[sender] = (lock, users - 1)
        if reply.verdict.sent:
            self._next[sender] = (max(nonce + 1, self.sent_upto(sender)), self._now())
            self._next.move_to_end(sender)
            if len(self._next) > _REMEMBERED:
                self._next.popitem(last=False)
        return reply
