"""Who waits in this process for a hint: that a lane got work, or that an intent ended.

Hints may be lost and may be late; whoever listens reads the ledger before and after.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection

_RECENT = 10_000
_RECENT_S = 1.0
"""An end received less than this ago still answers: its waiter may have been between its read and its wait."""


class Bells:
    def __init__(self) -> None:
        self._rung: set[str] = set()
        self._bells: dict[asyncio.Event, frozenset[str]] = {}
        self._recent: OrderedDict[str, float] = OrderedDict()
        self._news: set[str] = set()
        self._news_bell = asyncio.Event()
        self._finals: dict[str, set[asyncio.Future[None]]] = {}

    async def wake(self, names: Collection[str], timeout_s: float) -> set[str]:
        """Those that rang since they were last returned."""
        wanted = frozenset(names)
        if not (wanted & self._rung):
            bell = asyncio.Event()
            self._bells[bell] = wanted
            try:
                async with asyncio.timeout(timeout_s):
                    await bell.wait()
            except TimeoutError:
                pass
            finally:
                del self._bells[bell]
        rung = wanted & self._rung
        self._rung -= rung
        return set(rung)

    async def news(self, names: Collection[str], timeout_s: float) -> set[str]:
        """Those of which anything was told since they were last returned. Takes nothing from `wake`."""
        wanted = frozenset(names)
        if not (wanted & self._news):
            self._news_bell.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    while not (wanted & self._news):
                        await self._news_bell.wait()
                        self._news_bell.clear()
            except TimeoutError:
                pass
        news, self._news = wanted & self._news, set()
        return set(news)

    def tell(self, name: str) -> None:
        self._news.add(name)
        self._news_bell.set()

    async def final(self, id: str, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._recent.get(id, float("-inf")) < _RECENT_S:
            return
        future: asyncio.Future[None] = loop.create_future()
        self._finals.setdefault(id, set()).add(future)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            pass
        finally:
            waiting = self._finals[id]
            waiting.discard(future)
            if not waiting:
                del self._finals[id]

    def ring(self, name: str) -> None:
        self._rung.add(name)
        for bell, wanted in self._bells.items():
            if name in wanted:
                bell.set()

    def finished(self, id: str) -> None:
        waiting = self._finals.get(id)
        if waiting is None:
            self._recent[id] = asyncio.get_running_loop().time()
            self._recent.move_to_end(id)
            if len(self._recent) > _RECENT:
                self._recent.popitem(last=False)
            return
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def all_finished(self) -> None:
        """The hints are gone: everybody reads instead of waiting."""
        for id in list(self._finals):
            self.finished(id)
