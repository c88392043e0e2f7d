"""What this process sends: one at a time of each sender, whoever asks for it, and remembered for a while.

The memory serves when the store is away or just came back, while the chain's count still lags: the store may grant
bytes as never sent that this process sent without it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from txmanager.core.after_send import Fate, after_send
from txmanager.core.chain import SendReply, Verdict
from txmanager.core.upstream import Upstream

_REMEMBERED = 100_000
_WRITTEN = 20_000
_FOR_S = 30.0
"""Later the chain's own count says it."""


class Sends:
    def __init__(self, upstream: Upstream, now: Callable[[], float] = monotonic) -> None:
        self._upstream = upstream
        self._now = now
        self._next: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        self._written: OrderedDict[str, None] = OrderedDict()
        """Hashes of bytes that a node may have from this process."""

    def sent_upto(self, sender: str) -> int:
        """The first nonce after those that a node took from this process lately; 0 when it took none."""
        nonce, at = self._next.get(sender, (0, 0.0))
        return nonce if self._now() - at < _FOR_S else 0

    def may_be_sent(self, hash: str) -> bool:
        """Whether this process wrote these bytes, and no node said that it did not take them."""
        return hash in self._written

    async def send(
        self, sender: str, nonce: int, raw: bytes, hash: str, may: Callable[[], bool], *, again: bool
    ) -> SendReply:
        """`again`: the bytes may go although this process wrote them before; the caller looked them up."""
        lock, users = self._locks.get(sender, (asyncio.Lock(), 0))
        self._locks[sender] = (lock, users + 1)
        try:
            async with lock:
                known = hash in self._written
                if known and not again:  # written while this call waited for its turn
                    return SendReply(Verdict.UNKNOWN, "this process sent the same bytes a moment ago")
                self._written[hash] = None
                self._written.move_to_end(hash)
                if len(self._written) > _WRITTEN:
                    self._written.popitem(last=False)
                reply = await self._upstream.send(sender, raw, hash, may)
                if not known and after_send(reply) in (Fate.RETRY, Fate.REFUSE):
                    self._written.pop(hash, None)
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
