"""The newest final block, to sign against. Never older than its limit, never going back, never waited for when fresh.

Only a *final* hash is used: an unknown base counts as expired, so a hash from a fork would kill what it signs.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from txmanager.chains.near.views import BlockHead
from txmanager.core.errors import Unavailable
from txmanager.rpc.errors import RpcFailure

BLOCK_S = 0.6
"""The shortest time between two blocks on mainnet."""


class FinalHead:
    def __init__(self, view: Callable[[], Awaitable[BlockHead]], fresh_s: float, max_age_s: float) -> None:
        self._view = view
        self._fresh_s = fresh_s
        self._max_age_s = max_age_s
        self._head: BlockHead | None = None
        self._read_at = 0.0
        self.block_s = BLOCK_S
        """How long a block takes at least, as far as it was seen."""
        self._refresh: asyncio.Task[None] | None = None

    async def get(self, younger_than_s: float = math.inf) -> BlockHead:
        """`younger_than_s` makes the usual limits tighter, never wider."""
        head = self._head
        age = asyncio.get_running_loop().time() - self._read_at
        if head is not None and age < min(self._fresh_s, younger_than_s):
            return head
        refresh = self._refresh
        ours = refresh is None or refresh.done()
        if refresh is None or refresh.done():
            refresh = self._refresh = asyncio.create_task(self._read())
            refresh.add_done_callback(_retrieve)
        if head is not None and age < min(self._max_age_s, younger_than_s):
            return head  # good enough; the next caller gets the new one
        await asyncio.shield(refresh)
        if not ours and asyncio.get_running_loop().time() - self._read_at >= younger_than_s:
            return await self.get(younger_than_s)  # it was asked for before we came
        if self._head is None:
            raise Unavailable("no final block could be read")
        return self._head

    async def _read(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        head = await self._view()
        if self._head is not None and head.height > self._head.height:
            # Only ever shorter: a span without questions, or a halted chain, says nothing of its usual pace.
            self.block_s = min(self.block_s, (asked_at - self._read_at) / (head.height - self._head.height))
        if self._head is None or head.height >= self._head.height:
            self._head = head
        self._read_at = asked_at  # the answer may be as old as the question

    async def close(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)


def _retrieve(task: asyncio.Task[None]) -> None:
    """A refresh that failed behind the scenes is tried again by the next caller; it is not a lost exception."""
    if not task.cancelled():
        error = task.exception()
        if error is not None and not isinstance(error, RpcFailure):
            asyncio.get_running_loop().call_exception_handler(
                {"message": "reading the final block failed", "exception": error, "task": task}
            )
