"""An instance's life as the store sees it: heartbeats, and how long a grant may still be used.

A grant is over 1 s before anybody else may take it. The clock is monotonic, and each time counts from before the call
that it came with, so a process that was stopped for a while finds its grants over when it wakes up.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

import structlog

from txmanager.core.admission import ALIVE_MS, Grant, Mempool
from txmanager.core.errors import TxManagerError
from txmanager.core.values import value

BEAT_S = 1.0
MARGIN_S = 1.0


@value(frozen=True, slots=True)
class Hold:
    """A grant with the time of this process at which it is over."""

    grant: Grant
    until: float
    era: int


class Heart:
    def __init__(self, mempool: Mempool, now: Callable[[], float], owner: str | None = None) -> None:
        self._mempool = mempool
        self._now = now
        self.owner = owner or f"gateway-{secrets.token_hex(8)}"
        self._alive_until = float("-inf")
        self._era = 0
        self._born = ""
        self.on_loss: Callable[[], None] = lambda: None
        """Called when the store turns out to be another one, or to have lost everything."""
        self._log = structlog.get_logger("gateway")

    @property
    def alive(self) -> bool:
        return self._now() < self._alive_until - MARGIN_S

    async def beat(self) -> None:
        sent_at = self._now()
        alive = await self._mempool.heartbeat(self.owner)
        if alive.lapsed:
            self._era += 1
        if self._born and alive.born != self._born:
            self._log.error("the store lost everything it had; waiting callers are told to send again")
            self.on_loss()
        self._born = alive.born
        self._alive_until = sent_at + ALIVE_MS / 1000

    async def run(self) -> None:
        """Beat for ever; a beat that fails is tried again, and grants run out meanwhile."""
        while True:
            try:
                async with asyncio.timeout(BEAT_S * 2):
                    await self.beat()
            except (TxManagerError, TimeoutError):
                pass
            await asyncio.sleep(BEAT_S)

    def hold(self, grant: Grant, called_at: float) -> Hold:
        return Hold(grant, called_at + grant.left_ms / 1000, self._era)

    def left_s(self, hold: Hold) -> float:
        """Seconds in which the holder may still write; 0 or less: not any more."""
        if hold.era != self._era:
            return 0.0
        return min(hold.until, self._alive_until) - MARGIN_S - self._now()

    def may_send(self, hold: Hold) -> bool:
        return self.left_s(hold) > 0
