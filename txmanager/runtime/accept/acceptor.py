"""Submits of many concurrent callers travel together: those of one loop turn in one batch, more while the ledger works.

Every caller gets its own answer within `patience_s`: accepted durably, refused, or (only when its batch had left and
no answer came) `Unconfirmed`, which the same idempotency key resolves.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from txmanager.core.budgets import Bill
from txmanager.core.errors import InvalidInput, TxManagerError, Unavailable, Unconfirmed
from txmanager.core.models import Intent
from txmanager.core.quotas import Share
from txmanager.core.trace import Tracer
from txmanager.runtime.accept.producer import Submitted

_BATCH = 256
_ABREAST = 3
"""Batches under way at once: enough to hide a round trip, few enough that load makes them bigger instead of more."""


class _Wish:
    __slots__ = ("answer", "bill", "deadline", "gone", "intent", "share")

    def __init__(
        self, intent: Intent, answer: asyncio.Future[Submitted], share: Share | None, bill: Bill | None, deadline: float
    ) -> None:
        self.intent = intent
        self.share = share
        self.bill = bill
        self.answer = answer
        self.deadline = deadline
        self.gone = False
        """Whether it left for the ledger."""


class Accepting(Protocol):
    async def submit_many(
        self, intents: Sequence[Intent], *, shares: Sequence[Share | None] = (), bills: Sequence[Bill | None] = ()
    ) -> list[Submitted | TxManagerError]: ...


class Acceptor:
    def __init__(self, producer: Accepting, patience_s: float = 0.7, tracer: Tracer | None = None) -> None:
        self._producer = producer
        self._patience_s = patience_s
        self._tracer = tracer
        self._waiting: deque[_Wish] = deque()
        self._open: dict[_Wish, None] = {}
        """Those without an answer, in the order of their deadlines."""
        self._watch: asyncio.TimerHandle | None = None
        """For the first deadline: a timer for each would cost as much as the rest of `submit`."""
        self._abreast = 0
        self._scheduled = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, intent: Intent, share: Share | None = None, bill: Bill | None = None) -> Submitted:
        loop = asyncio.get_running_loop()
        wish = _Wish(intent, loop.create_future(), share, bill, loop.time() + self._patience_s)
        if self._tracer is not None and intent.trace:
            wish.answer.add_done_callback(partial(_trace, self._tracer, intent, _now_ms()))
        self._waiting.append(wish)
        if not self._scheduled and self._abreast < _ABREAST:
            self._scheduled = True
            loop.call_soon(self._send)
        self._open[wish] = None
        if self._watch is None:
            self._watch = loop.call_at(wish.deadline, self._check_deadlines)
        try:
            return await wish.answer
        finally:
            del self._open[wish]

    def _check_deadlines(self) -> None:
        self._watch = None
        loop = asyncio.get_running_loop()
        for wish in self._open:
            if wish.deadline > loop.time():
                self._watch = loop.call_at(wish.deadline, self._check_deadlines)
                return
            if not wish.answer.done():
                self._give_up(wish)

    def _give_up(self, wish: _Wish) -> None:
        if wish.gone:
            why: Unavailable = Unconfirmed(
                f"the ledger did not answer within {self._patience_s:g} s; whether the intent was accepted is unknown"
            )
        else:
            self._waiting.remove(wish)
            why = Unavailable(f"the ledger did not answer within {self._patience_s:g} s; nothing was accepted")
        wish.answer.set_exception(why)

    def _send(self) -> None:
        self._scheduled = False
        while self._waiting and self._abreast < _ABREAST:
            batch: list[_Wish] = []
            while self._waiting and len(batch) < _BATCH:
                wish = self._waiting.popleft()
                if not wish.answer.done():  # a caller that was cancelled wants nothing any more
                    wish.gone = True
                    batch.append(wish)
            if not batch:
                return
            self._abreast += 1
            task = asyncio.create_task(self._submit(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _submit(self, batch: Sequence[_Wish]) -> None:
        try:
            results = await self._results(batch)
        except Exception as error:
            results = [error] * len(batch)
        finally:
            self._abreast -= 1
            if self._waiting:
                self._send()
        for wish, result in zip(batch, results, strict=True):
            if wish.answer.done():
                continue
            if isinstance(result, Exception):
                wish.answer.set_exception(result)
            else:
                wish.answer.set_result(result)

    async def _results(self, batch: Sequence[_Wish]) -> Sequence[Submitted | Exception]:
        try:
            return await self._producer.submit_many(
                [wish.intent for wish in batch],
                shares=[wish.share for wish in batch],
                bills=[wish.bill for wish in batch],
            )
        except InvalidInput as error:
            if len(batch) == 1:
                return [error]
        except TxManagerError as error:
            return [error] * len(batch)
        # what is wrong with one must not refuse its neighbours
        return [result for wish in batch for result in await self._results([wish])]

    async def drain(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _trace(tracer: Tracer, intent: Intent, began: int, answer: asyncio.Future[Submitted]) -> None:
    if answer.cancelled():
        return
    error = answer.exception()
    facts: dict[str, str | int] = {"key": intent.id.key, "pool": intent.id.pool, "kind": intent.kind}
    if error is None:
        submitted = answer.result()
        facts |= {"lane": submitted.record.lane, "replayed": str(submitted.replayed).lower()}
    failed = "" if error is None else getattr(error, "code", type(error).__name__)
    tracer.span(intent.trace, "accept", began, _now_ms(), facts, failed=failed)
