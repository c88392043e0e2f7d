"""The monitor: compares every EVM lane with its chain, says what it sees, and asks the lane's owner to look.

It holds no key and takes no lease; nothing it does moves a nonce. What is to be done is decided by the owner's own
`decide`. Lanes whose key the caller holds are only ever alerted about: nobody here could replace their bytes. Any
number of monitors may run.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from txmanager.core.alerts import FOR_THE_OWNER, Alert
from txmanager.core.errors import TxManagerError
from txmanager.core.health import Health, Limits, Reader, Reading, hashes_of, health
from txmanager.core.ledger import Ledger
from txmanager.core.models import Lane, Record
from txmanager.core.states import LaneState
from txmanager.runtime.care.monitor_metrics import MonitorMetrics

_ABREAST = 16
ASK_AT_MOST = 64
"""How many hashes of a lane are asked for in a round; pools hold 16 nonces of an account."""
SAY_AGAIN_S = 600.0
"""How often an alert that goes on is logged again."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One network as the monitor sees it."""

    name: str
    reader: Reader
    limits: Limits


@dataclass(slots=True)
class _Memory:
    """What is remembered of a lane between two rounds; losing it costs a log line."""

    waits_for: int | None = None
    since: int = 0
    alerts: dict[Alert, tuple[float, float]] = field(default_factory=dict)
    """Since when, and when it was last logged."""
    asked_at: float = float("-inf")


class Monitor:
    def __init__(
        self,
        ledger: Ledger,
        networks: Mapping[str, Watched],
        *,
        period_s: float = 30.0,
        reconcile_every_s: float = 600.0,
        metrics: MonitorMetrics | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        name: str | None = None,
    ) -> None:
        """`networks` by the beginning of their lanes' ids: `evm:{chain_id}`."""
        self.metrics = metrics or MonitorMetrics()
        self.rounds = 0
        self._ledger = ledger
        self._networks = networks
        self._period_s, self._reconcile_every_s = period_s, reconcile_every_s
        self._clock = clock
        self._name = name or f"monitor-{secrets.token_hex(4)}"
        self._memories: dict[str, _Memory] = {}
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger("monitor").bind(monitor=self._name)

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """One round at once, which is the reconciliation of a start; then one each period."""
        while not self._stopping.is_set():
            began = asyncio.get_running_loop().time()
            try:
                await self.check_all()
            except TxManagerError as error:
                self._log.warning("round failed, again later", error=str(error))
            left = self._period_s - (asyncio.get_running_loop().time() - began)
            try:
                async with asyncio.timeout(max(0.05, left)):
                    await self._stopping.wait()
            except TimeoutError:
                pass

    async def check_all(self) -> list[Health]:
        """One round over every lane of a known network."""
        self.rounds += 1
        lanes = [lane for lane in await self._ledger.lanes() if lane.state is not LaneState.CLOSED]
        known = [(lane, network) for lane in lanes if (network := self._network(lane.id)) is not None]
        found: list[Health] = []
        for start in range(0, len(known), _ABREAST):
            group = known[start : start + _ABREAST]
            for answer in await asyncio.gather(*(self._check(lane, network) for lane, network in group)):
                found += [answer] if answer is not None else []
        if gone := set(self._memories) - {lane.id for lane, _ in known}:
            for lane in gone:
                del self._memories[lane]
            self.metrics.forget(gone)
        self.metrics.rounds.inc()
        self.metrics.last_round.set(self._clock() / 1000)
        return found

    def _network(self, lane: str) -> Watched | None:
        return self._networks.get(lane.rpartition(":")[0])

    async def _check(self, lane: Lane, network: Watched) -> Health | None:
        self._memories.setdefault(lane.id, _Memory())
        try:
            seen = await self.look(lane, network)
        except TxManagerError as error:
            self.metrics.failures.labels(lane.id, type(error).__name__).inc()
            self._log.warning("lane not checked", lane=lane.id, error=str(error))
            return None
        self._remember(lane, seen)
        try:
            await self._act(lane, seen)
        except TxManagerError as error:
            self._log.warning("owner not asked, again later", lane=lane.id, error=str(error))
        return seen

    async def look(self, lane: Lane, network: Watched) -> Health:
        """Lane, records, chain, lane again: see `core.health` for why in this order."""
        book = None
        if lane.keyless:
            await self._ledger.expire(lane.id)
            book = await self._ledger.book(lane.id)
        records = await self._ledger.pending(lane.id)
        reading = await self._read(lane, network, records)
        again = await self._ledger.lane(lane.id)
        memory = self._memories.setdefault(lane.id, _Memory())
        now = self._clock()
        cursor = again.cursor if again is not None else None
        if lane.keyless:
            await self._ledger.checked(lane.id)
        seen = health(lane, records, reading, network.limits, now, cursor=cursor, since=memory.since, book=book)
        if seen.waits_for != memory.waits_for:
            # What has waited behind another one was not late itself.
            memory.since = now if memory.waits_for is not None else 0
            memory.waits_for = seen.waits_for
            seen = health(lane, records, reading, network.limits, now, cursor=cursor, since=memory.since, book=book)
        return seen

    @staticmethod
    async def _read(lane: Lane, network: Watched, records: Sequence[Record]) -> Reading:
        """With slow finality a lane has a thousand records that are in blocks: those are not asked for, every round."""
        hashes = hashes_of(records)
        if len(hashes) > ASK_AT_MOST:
            latest = (await network.reader.read(lane.id, ())).latest
            hashes = hashes_of(records, latest)[:ASK_AT_MOST]
        return replace(await network.reader.read(lane.id, hashes), asked=frozenset(hashes))

    def _remember(self, lane: Lane, seen: Health) -> None:
        """Tell what began and what is over, by names that never change."""
        memory, now = self._memories[lane.id], asyncio.get_running_loop().time()
        self.metrics.note(seen)
        log = self._log.bind(lane=lane.id, keyless=lane.keyless)
        for alert, evidence in seen.alerts.items():
            began, said = memory.alerts.get(alert, (now, float("-inf")))
            if said == float("-inf"):
                self.metrics.alerts.labels(lane.id, alert).inc()
            if now - said >= SAY_AGAIN_S:
                log.error("nonce alert", alert=alert.value, for_s=round(now - began), **evidence)
                said = now
            memory.alerts[alert] = (began, said)
        for alert in [alert for alert in memory.alerts if alert not in seen.alerts]:
            began, _ = memory.alerts.pop(alert)
            log.info("nonce alert over", alert=alert.value, lasted_s=round(now - began))

    async def _act(self, lane: Lane, seen: Health) -> None:
        if lane.keyless:
            return
        memory, now = self._memories[lane.id], asyncio.get_running_loop().time()
        wanted = [alert for alert in seen.alerts if alert in FOR_THE_OWNER]
        if wanted or now - memory.asked_at >= self._reconcile_every_s:
            await self._ledger.check(lane.id, f"{self._name}:{self.rounds}", wanted)
            memory.asked_at = now
            self.metrics.asks.labels(lane.id).inc()
