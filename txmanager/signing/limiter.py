"""How fast one signer is asked: so many at once, so many per second; what unblocks a lane goes first.

A signer that throttles is asked half as often, and a little more each second after that. Quotas are per account, so
the rate is divided among the workers that live; `Shares` is told how many they are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_GROWS = 1.1
_SLOWEST = 1 / 64


class Limiter:
    def __init__(self, max_concurrent: int, per_second: float | None = None) -> None:
        self._free = max_concurrent
        self._per_second = per_second
        self._workers = 1
        self._brake = 1.0
        self._braked_at = 0.0
        self._next_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    @property
    def rate(self) -> float | None:
        """Signatures per second that this process may ask for now."""
        if self._per_second is None:
            return None
        seconds = max(0.0, _now() - self._braked_at) if self._brake < 1.0 else 0.0
        grown: float = self._brake * _GROWS**seconds
        return self._per_second / self._workers * min(1.0, grown)

    def share(self, workers: int) -> None:
        """So many processes use the account's quota."""
        self._workers = max(1, workers)

    def throttled(self) -> None:
        """The signer asks for less. Answers to what was asked before this do not count again for a second."""
        if _now() - self._braked_at < 1.0 and self._brake < 1.0:
            return
        rate, most = self.rate, self._per_second
        if rate is not None and most is not None:
            self._brake = max(_SLOWEST, rate * self._workers / most / 2)
        self._braked_at = _now()

    @asynccontextmanager
    async def turn(self, *, urgent: bool = False) -> AsyncIterator[None]:
        await self._enter(urgent)
        try:
            yield
        finally:
            self._free += 1
            self._admit()

    async def _enter(self, urgent: bool) -> None:
        waiting = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._others).append(waiting)
        self._admit()
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._free += 1
                self._admit()
            raise

    def _admit(self) -> None:
        while self._free > 0 and (self._urgent or self._others):
            rate, now = self.rate, _now()
            if rate is not None and now < self._next_at:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_at(self._next_at, self._on_time)
                return
            queue = self._urgent or self._others
            waiting = queue.popleft()
            if waiting.done():
                continue  # given up
            if rate is not None:
                self._next_at = max(now, self._next_at) + 1.0 / rate
            self._free -= 1
            waiting.set_result(None)

    def _on_time(self) -> None:
        self._timer = None
        self._admit()


class Shares:
    """The limiters of one process."""

    def __init__(self) -> None:
        self._limiters: list[Limiter] = []
        self._workers = 1

    def add(self, limiter: Limiter) -> None:
        limiter.share(self._workers)
        self._limiters.append(limiter)

    def among(self, workers: int) -> None:
        if workers != self._workers:
            self._workers = workers
            for limiter in self._limiters:
                limiter.share(workers)


def _now() -> float:
    return asyncio.get_running_loop().time()
