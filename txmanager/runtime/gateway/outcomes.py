"""Callers who wait for a node's word: told at once when this process learns it, else by the store's hint."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress

from txmanager.core.admission import Ended, Mempool, State
from txmanager.core.errors import Unavailable
from txmanager.runtime.gateway import words

_LOOK_EVERY_S = 0.05
_TAKEN = frozenset({State.SENT, State.LANDED})


class Lost(Exception):
    """The store lost everything; nobody knows what becomes of the bytes."""


class Outcomes:
    def __init__(self, mempool: Mempool) -> None:
        self._mempool = mempool
        self._waiting: defaultdict[str, set[asyncio.Future[str | None]]] = defaultdict(set)

    def expect(self, hash: str) -> asyncio.Future[str | None]:
        """None when a node took it, else the words of the refusal. Begin before the bytes can be sent."""
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting[hash].add(future)
        return future

    def forget(self, hash: str, future: asyncio.Future[str | None]) -> None:
        self._waiting[hash].discard(future)
        if not self._waiting[hash]:
            del self._waiting[hash]
        if future.done() and not future.cancelled():
            future.exception()

    def tell(self, hash: str, refusal: str | None) -> None:
        for future in self._waiting.get(hash, ()):
            if not future.done():
                future.set_result(refusal)

    def lost(self) -> None:
        for futures in self._waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(Lost())

    async def word(self, hash: str, future: asyncio.Future[str | None], timeout_s: float) -> str | None:
        """The words of a refusal; None when a node took it, or nobody knew in time and it is still here."""
        watching = asyncio.create_task(self._watch(hash, timeout_s))
        try:
            await asyncio.wait({future, watching}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if future.done():
            return future.result()
        if not watching.cancelled():
            return watching.result()
        with suppress(Unavailable):
            return (await self._look(hash))[1]  # the store may have lost it since
        return None

    async def _watch(self, hash: str, timeout_s: float) -> str | None:
        """Another instance may send it."""
        while True:
            try:
                await self._mempool.wait_word(hash, timeout_s)
                decided, refusal = await self._look(hash)
            except Unavailable:
                await asyncio.sleep(0.5)
                continue
            if decided:
                return refusal
            await asyncio.sleep(_LOOK_EVERY_S)  # a hint that is still fresh would answer at once, again and again

    async def _look(self, hash: str) -> tuple[bool, str | None]:
        """Whether it is decided, and the words of a refusal."""
        found = await self._mempool.find(hash)
        if found is None:
            raise Lost
        if isinstance(found, Ended):
            return True, None if found.reason == "final" else words.ended(found)
        return found.state in _TAKEN, None
