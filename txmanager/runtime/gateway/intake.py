"""Offers of many requests in few calls to the store: while one call is on its way, the next batch gathers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from txmanager.core.admission import Admitted, Count, Mempool, Offer
from txmanager.runtime.gateway.heart import Heart

_MOST = 256
_CALLS = 2
"""Calls under way at once: one waits for the disk while the next one gathers."""

Granted = Callable[[Admitted, float], None]


class _Waiting:
    def __init__(self, offers: Sequence[Offer], counts: Mapping[str, Count]) -> None:
        self.offers = offers
        self.counts = counts
        self.answer: asyncio.Future[list[Admitted]] = asyncio.get_running_loop().create_future()


class Intake:
    """`on_grant` is told of every grant at once, before any caller is answered."""

    def __init__(self, mempool: Mempool, heart: Heart, now: Callable[[], float], on_grant: Granted) -> None:
        self._mempool = mempool
        self._heart = heart
        self._now = now
        self._on_grant = on_grant
        self._queue: deque[_Waiting] = deque()
        self._calls: set[asyncio.Task[None]] = set()

    async def admit(self, offers: Sequence[Offer], counts: Mapping[str, Count] | None = None) -> list[Admitted]:
        waiting = _Waiting(offers, counts or {})
        self._queue.append(waiting)
        self._start()
        return await waiting.answer

    def _start(self) -> None:
        if self._queue and len(self._calls) < _CALLS:
            task = asyncio.create_task(self._call())
            self._calls.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._start()

    async def _call(self) -> None:
        batch: list[_Waiting] = []
        offers: list[Offer] = []
        counts: dict[str, Count] = {}
        while self._queue and (not batch or len(offers) + len(self._queue[0].offers) <= _MOST):
            waiting = self._queue.popleft()
            batch.append(waiting)
            offers += waiting.offers
            counts |= waiting.counts
        if not batch:  # another call took them along
            return
        called_at = self._now()
        try:
            answers = await self._mempool.admit(offers, counts or None, owner=self._heart.owner)
        except BaseException as error:
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
                    waiting.answer.exception()
            if not isinstance(error, Exception):
                raise
            return
        for answer in answers:
            if answer.grant is not None:
                self._on_grant(answer, called_at)
        position = 0
        for waiting in batch:
            part = answers[position : position + len(waiting.offers)]
            position += len(waiting.offers)
            if not waiting.answer.done():
                waiting.answer.set_result(part)

    async def close(self) -> None:
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
