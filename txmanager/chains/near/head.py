"""The newest final block, to sign against. Never older than its limit, never going back, never waited for when fresh.

Only a *final* hash is used: an unknown base counts as expired, so a hash from a fork would kill what it signs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from txmanager.chains.near.views import BlockHead
from txmanager.core.errors import Unavailable
from txmanager.rpc.errors import RpcFailure


class FinalHead:
    def __init__(self, view: Callable[[], Awaitable[BlockHead]], fresh_s: float, max_age_s: float) -> None:
        self._view = view
        self._fresh_s = fresh_s
        self._max_age_s = max_age_s
        self._head: BlockHead | None = None
        self._read_at = 0.0
        self._refresh: asyncio.Task[None] | None = None

    async def get(self) -> BlockHead:
        head = self._head
        age = asyncio.get_running_loop().time() - self._read_at
        if head is not None and age < self._fresh_s:
            return head
        refresh = self._refresh
        if refresh is None or refresh.done():
            refresh = self._refresh = asyncio.create_task(self._read())
            refresh.add_done_callback(_retrieve)
        if head is not None and age < self._max_age_s:
            return head  # good enough; the next caller gets the new one
        await asyncio.shield(refresh)
        if self._head is None:
            raise Unavailable("no final block could be read")
        return self._head

    async def _read(self) -> None:
        head = await self._view()
        if self._head is None or head.height >= self._head.height:
            self._head = head
        self._read_at = asyncio.get_running_loop().time()

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
