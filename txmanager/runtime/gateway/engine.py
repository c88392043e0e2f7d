"""One mempool with what serves it: heart, intake, dispatcher, follower. Started and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import structlog

from txmanager.core.admission import Admitted, Mempool
from txmanager.core.errors import TxManagerError
from txmanager.core.upstream import Upstream
from txmanager.runtime.gateway.dispatch import Dispatcher, Rules
from txmanager.runtime.gateway.follow import Follower
from txmanager.runtime.gateway.heart import Heart
from txmanager.runtime.gateway.intake import Intake
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.runtime.gateway.outcomes import Outcomes
from txmanager.runtime.gateway.sends import Sends
from txmanager.runtime.gateway.submit import Submitter, Terms

_START_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Seam:
    """What engines of one chain share with each other and with their surroundings."""

    upstream: Upstream
    sends: Sends
    rules: Rules
    terms: Terms
    metrics: GatewayMetrics
    lanes: Callable[[], Collection[str]]
    admits: Callable[[str], bool]
    sent_upto: Callable[[str], int]
    now: Callable[[], float] = monotonic
    follow_every_s: float = 1.0


class Engine:
    def __init__(self, mempool: Mempool, seam: Seam) -> None:
        self.mempool = mempool
        self.heart = Heart(mempool, seam.now)
        self.outcomes = Outcomes(mempool)
        self.heart.on_loss = self.outcomes.lost
        self.dispatcher = Dispatcher(
            mempool, seam.upstream, seam.sends, self.heart, seam.rules, seam.metrics, self.outcomes, seam.now
        )
        self.intake = Intake(mempool, self.heart, seam.now, self._granted)
        self.submitter = Submitter(
            mempool,
            seam.upstream,
            seam.sends,
            self.intake,
            self.outcomes,
            seam.terms,
            seam.metrics,
            seam.lanes,
            seam.admits,
            seam.sent_upto,
        )
        self.follower = Follower(
            mempool,
            seam.upstream,
            seam.metrics,
            seam.now,
            strict=seam.rules.strict,
            lag_ms=seam.rules.lag_ms,
            every_s=seam.follow_every_s,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _granted(self, answer: Admitted, called_at: float) -> None:
        assert answer.grant is not None
        self.dispatcher.start(answer.grant, called_at)

    async def start(self) -> None:
        """Also without the store: everything begins when it is there."""
        with suppress(TxManagerError):
            await self.heart.beat()
        self._tasks = [asyncio.create_task(kept_up(part.run)) for part in (self.heart, self.dispatcher, self.follower)]

    async def stop(self) -> None:
        """What is being sent is finished first; then others may go on at once."""
        heart, *others = self._tasks
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.dispatcher.stop()
        heart.cancel()
        await asyncio.gather(heart, return_exceptions=True)
        await self.intake.close()
        with suppress(TxManagerError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self.mempool.leave(self.heart.owner)


async def kept_up(run: Callable[[], Awaitable[None]]) -> None:
    """A part that breaks starts again: without it the gateway would take transactions and never send them."""
    while True:
        try:
            await run()
        except Exception as error:
            structlog.get_logger("gateway").error("a part broke and starts again", error=repr(error)[:300])
        await asyncio.sleep(_START_AGAIN_S)
