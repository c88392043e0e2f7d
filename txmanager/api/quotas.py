"""A token's quotas, held for all API processes together: requests per second, and what it may have waiting.

A rate is drawn from the ledger in slices of a tenth of a second, so that a busy token costs ten small calls a second
and not one per request; together the processes never admit more than the burst and the rate. What waits is summed over
the lanes at most once a second; what this process accepts meanwhile is added. A token can so exceed its limit by what
the other processes accept in that second, and in no lane at all: each lane checks its own count as it accepts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from txmanager.api.auth import Caller
from txmanager.api.problems import QuotaUsed
from txmanager.core.errors import NoRoom, Unavailable
from txmanager.core.quotas import OVERHEAD_BYTES, Quotas, Room, Share

T = TypeVar("T")
_SLICE_S = 0.1
_KEEP_S = 1.0
"""A slice that was not used by then is given up, or an idle process would save up a second burst."""
_FRESH_S, _EASY_S = 1.0, 5.0
"""How old a sum may be: above half of a limit, and below."""
_PACE_MS = 10_000
"""How long a line of a stream waits for its token's rate at most."""


class Meter:
    """This process's share of one token's rate."""

    def __init__(self, quotas: Quotas, name: str, per_second: float, burst: int, now: Callable[[], float]) -> None:
        self._quotas = quotas
        self._name = name
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._slice = max(1, min(burst // 4, int(per_second * _SLICE_S)))
        self._left = 0
        self._drawn_at = 0.0
        self._refused_until = float("-inf")
        self._waiting = 0
        self._lock = asyncio.Lock()

    async def take(self) -> float:
        """Seconds to wait; 0 when admitted."""
        if self.spend():
            return 0.0
        self._waiting += 1
        try:
            async with self._lock:
                return 0.0 if self.spend() else await self._draw()
        finally:
            self._waiting -= 1

    def spend(self) -> bool:
        """Whether it is admitted by what was drawn before."""
        if not self._left or self._now() - self._drawn_at > _KEEP_S:
            return False
        self._left -= 1
        return True

    async def _draw(self) -> float:
        if (wait_s := self._refused_until - self._now()) > 0:
            return wait_s
        want = max(self._slice, min(self._waiting, self._burst))
        drawn = await self._quotas.draw(self._name, self._per_second, self._burst, want)
        if not drawn.granted:
            self._refused_until = self._now() + drawn.wait_ms / 1000
            return drawn.wait_ms / 1000
        self._left, self._drawn_at = drawn.granted - 1, self._now()
        return 0.0


class Backlog:
    """What one token has waiting, as this process knows it."""

    def __init__(self, quotas: Quotas, now: Callable[[], float]) -> None:
        self._quotas = quotas
        self._now = now
        self._room = Room()
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    def over(self, caller: Caller, size: int) -> Room | None:
        """What it uses, if there is no room for this one; else it counts as taken until the next sum."""
        used = self.full(caller, size)
        if used is None:
            self._room = Room(self._room.count + 1, self._room.size + size)
        return used

    def full(self, caller: Caller, size: int) -> Room | None:
        """What it uses, if there is no room for this one."""
        limits, used = caller.limits, self._room
        too_many = limits.max_queued is not None and used.count >= limits.max_queued
        if too_many or (limits.max_queued_bytes is not None and used.size + size > limits.max_queued_bytes):
            return used
        return None

    async def read(self, caller: Caller) -> None:
        async with self._lock:
            if self.stale(caller):
                self._room = await self._quotas.room(caller.name, caller.limits.pools)
                self._read_at = self._now()

    def stale(self, caller: Caller) -> bool:
        limits, used = caller.limits, self._room
        easy = limits.max_queued is None or used.count * 2 < limits.max_queued
        easy = easy and (limits.max_queued_bytes is None or used.size * 2 < limits.max_queued_bytes)
        return self._now() - self._read_at > (_EASY_S if easy else _FRESH_S)


class TokenQuotas:
    def __init__(
        self,
        quotas: Quotas,
        timeout_s: float,
        now: Callable[[], float] = monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._quotas = quotas
        self._timeout_s = timeout_s
        self._now = now
        self._pause = pause
        self._meters: dict[str, Meter] = {}
        self._backlogs: dict[str, Backlog] = {}

    async def charge(self, caller: Caller) -> None:
        """One request of the token's rate. Without the ledger nothing is admitted; a submit would fail anyway."""
        limits = caller.limits
        if limits.per_second is None:
            return
        meter = self._meters.get(caller.name)
        if meter is None:
            burst = max(1, math.ceil(limits.burst or limits.per_second))
            meter = Meter(self._quotas, caller.name, limits.per_second, burst, self._now)
            self._meters[caller.name] = meter
        if not meter.spend() and (wait_s := await self._within(meter.take())):
            raise _over(caller, wait_s)

    async def charge_more(self, caller: Caller, count: int) -> None:
        """The other requests that one request stands for. What was granted of too few is used up."""
        limits = caller.limits
        if limits.per_second is None or count < 1:
            return
        burst = max(1, math.ceil(limits.burst or limits.per_second))
        if count >= burst:
            raise QuotaUsed(
                f"a batch of {count + 1} is more than the burst of token {caller.name!r}, {burst}; send fewer"
            )
        drawn = await self._within(self._quotas.draw(caller.name, limits.per_second, burst, count))
        if drawn.granted < count:
            raise _over(caller, (count - drawn.granted) / limits.per_second)

    async def pace(self, caller: Caller, count: int) -> int:
        """How many of `count` items may go on now: waits a while for one at least, then raises `QuotaUsed`."""
        limits = caller.limits
        if limits.per_second is None:
            return count
        burst = max(1, math.ceil(limits.burst or limits.per_second))
        while True:
            drawn = await self._within(self._quotas.draw(caller.name, limits.per_second, burst, min(count, burst)))
            if drawn.granted:
                return drawn.granted
            if drawn.wait_ms > _PACE_MS:
                raise _over(caller, drawn.wait_ms / 1000)
            await self._pause(drawn.wait_ms / 1000)

    async def admit(self, caller: Caller, size: int, known: Callable[[], Awaitable[bool]]) -> Share | None:
        """Who pays for an intent whose request has `size` bytes, or `NoRoom`. What is `known` is answered anyway."""
        limits = caller.limits
        if limits.max_queued is None and limits.max_queued_bytes is None:
            return None
        size += OVERHEAD_BYTES
        used = (await self._backlog(caller)).over(caller, size)
        if used is not None and not await self._within(known()):
            raise NoRoom(caller.name, used.count, used.size)
        return Share(caller.name, size, limits.max_queued, limits.max_queued_bytes)

    async def foresee(self, caller: Caller, size: int) -> None:
        """`NoRoom` where `admit` would say so for a new intent; nothing is counted."""
        limits = caller.limits
        if limits.max_queued is None and limits.max_queued_bytes is None:
            return
        used = (await self._backlog(caller)).full(caller, size + OVERHEAD_BYTES)
        if used is not None:
            raise NoRoom(caller.name, used.count, used.size)

    async def _backlog(self, caller: Caller) -> Backlog:
        """No older than it may be."""
        backlog = self._backlogs.get(caller.name)
        if backlog is None:
            backlog = self._backlogs[caller.name] = Backlog(self._quotas, self._now)
        if backlog.stale(caller):
            await self._within(backlog.read(caller))
        return backlog

    async def _within(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work
        except TimeoutError:
            raise Unavailable(f"the ledger did not answer within {self._timeout_s:g} s; nothing was accepted") from None


def _over(caller: Caller, wait_s: float) -> QuotaUsed:
    return QuotaUsed(
        f"token {caller.name!r} is over its quota of {caller.limits.per_second:g} requests per second",
        retry_after_s=max(1, math.ceil(wait_s)),
    )
