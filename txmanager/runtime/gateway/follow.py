"""Follows what was sent until the chain decided: counts at each block, ends at finality, nothing by a null alone.

Every instance may follow; what it tells the store are facts of the chain, so repeating them has no further effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from txmanager.core.admission import End, Followed, Mempool, Observed, State
from txmanager.core.errors import TxManagerError
from txmanager.core.upstream import Seen, Upstream
from txmanager.runtime.gateway.dispatch import as_count
from txmanager.runtime.gateway.metrics import GatewayMetrics

_PAGE = 200
_EXPIRE_EVERY_S = 10.0
_AT_LEAST_EVERY_S = 5.0
_FORGOTTEN_S = 60.0


class Follower:
    def __init__(
        self,
        mempool: Mempool,
        upstream: Upstream,
        metrics: GatewayMetrics,
        now: Callable[[], float],
        *,
        strict: bool,
        lag_ms: int,
        every_s: float = 1.0,
    ) -> None:
        self._mempool = mempool
        self._upstream = upstream
        self._metrics = metrics
        self._now = now
        self._strict = strict
        self._lag_s = lag_ms / 1000 if strict else 0.0
        self._every_s = every_s
        self._chain = str(upstream.chain_id)
        self._first_seen: dict[tuple[str, State], float] = {}
        """When this process first met a hash in a state."""
        self._found_at: dict[str, int] = {}
        """The block that a landed hash was last found in: it is not asked for again before that block is final."""
        self._height = -1
        self._walked_at = self._expired_at = float("-inf")
        self._log = structlog.get_logger("gateway")

    async def run(self) -> None:
        while True:
            try:
                await self.step()
            except TxManagerError as error:
                self._log.debug("nothing followed", error=str(error))
            await asyncio.sleep(self._every_s)

    async def step(self) -> None:
        totals = await self._mempool.totals()
        self._metrics.show(self._chain, totals)
        now = self._now()
        if now - self._expired_at >= _EXPIRE_EVERY_S:
            self._expired_at = now
            await self._expire()
        if not totals.senders:
            self._first_seen.clear()
            self._found_at.clear()
            return
        height = await self._upstream.height()
        if height != self._height or self._strict or now - self._walked_at >= _AT_LEAST_EVERY_S:
            self._height, self._walked_at = height, now
            await self.walk()

    async def _expire(self) -> None:
        while True:
            expired = await self._mempool.expire()
            if expired.ended:
                self._metrics.ended.labels(self._chain, "expired").inc(len(expired.ended))
            if not expired.more:
                return

    async def walk(self) -> None:
        """All senders with live transactions, once."""
        after, met = "", set[tuple[str, State]]()
        while True:
            page = await self._mempool.followed(after, _PAGE)
            if page:
                await self._read(page)
                met |= {(hash, state) for one in page for _, hash, state in one.out}
            if len(page) < _PAGE:
                break
            after = page[-1].sender
        self._first_seen = {key: at for key, at in self._first_seen.items() if key in met}
        self._found_at = {hash: at for hash, at in self._found_at.items() if (hash, State.LANDED) in met}

    async def _read(self, page: Sequence[Followed]) -> None:
        seen = await self._upstream.look_many([one.sender for one in page])
        answers = await self._mempool.observe({sender: as_count(one) for sender, one in seen.items()})
        for sender, observed in answers.items():
            if observed.word == "lower" and not self._strict:
                await self._lower(sender, seen[sender], observed)
        await self._judge(page, seen)

    async def _lower(self, sender: str, seen: Seen, observed: Observed) -> None:
        """A lower count is believed only when the block of the higher one left the chain."""
        base = observed.base
        if base is None or await self._upstream.canonical(base.block):
            return
        self._log.warning("a reorganisation took blocks back", sender=sender, count=seen.count, was=base.count)
        await self._mempool.observe({sender: as_count(seen, orphaned=base.block)})

    # -- ends

    async def _judge(self, page: Sequence[Followed], seen: dict[str, Seen]) -> None:
        landed = [
            (one.sender, nonce, hash)
            for one in page
            for nonce, hash, state in one.out
            if state is State.LANDED and self._for_s(hash, state) >= self._lag_s
        ]
        lost = [
            hash
            for one in page
            for nonce, hash, state in one.out
            if state is State.SENT
            and self._strict
            and self._for_s(hash, state) >= max(_FORGOTTEN_S, self._lag_s)
            and nonce >= seen[one.sender].count
        ]
        if lost:
            found = await self._upstream.find(lost)
            await self._mempool.reopen(
                [hash for hash, tx in zip(lost, found, strict=True) if tx is not None and not tx.known]
            )
        if landed:
            ends = await self._ends(landed)
            ended = await self._mempool.end(ends)
            reasons = {end.hash: end.reason for end in ends}
            for hash in ended:
                self._metrics.ended.labels(self._chain, reasons[hash]).inc()

    def _for_s(self, hash: str, state: State) -> float:
        now = self._now()
        return now - self._first_seen.setdefault((hash, state), now)

    async def _ends(self, landed: Sequence[tuple[str, int, str]]) -> list[End]:
        settled = await self._upstream.settled(self._height)
        landed = [one for one in landed if self._found_at.get(one[2], settled) <= settled]
        found = await self._upstream.find([hash for _, _, hash in landed])
        counts: dict[str, int] = {}
        ends: list[End] = []
        for (sender, nonce, hash), tx in zip(landed, found, strict=True):
            if tx is None:
                continue
            if tx.known:
                if tx.height is not None and tx.height <= settled:
                    ends.append(End(hash, "final"))
                elif tx.height is not None:
                    self._found_at[hash] = tx.height
                continue
            if sender not in counts:
                counts[sender] = await self._final_count(sender, settled)
            if nonce < counts[sender]:
                ends.append(End(hash, "overtaken", f"another transaction used nonce {nonce}"))
        return ends

    async def _final_count(self, sender: str, settled: int) -> int:
        if settled < 0:
            return 0
        if self._strict:
            return (await self._upstream.look(sender)).count
        return await self._upstream.count_at(sender, settled)
