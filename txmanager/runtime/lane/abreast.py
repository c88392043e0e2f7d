"""How many lanes of a chain take and sign at once: more would only wait for each other, each with a batch in memory.

It saves memory and decides nothing: a lane that waited for long goes on beside the others, so that none of them can
keep it from working.
"""

from __future__ import annotations

import asyncio

MOST = 64
LONGEST_S = 3.0
"""A callback that builds transactions, or a node that does not answer, may hold up those that are there."""


class Abreast:
    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MOST)

    async def enter(self) -> bool:
        """Once there is a place; False if there was none for long. Whoever had one leaves again."""
        if not self._places.locked():
            return await self._places.acquire()
        try:
            async with asyncio.timeout(LONGEST_S):
                return await self._places.acquire()
        except TimeoutError:
            return False

    def leave(self) -> None:
        self._places.release()
