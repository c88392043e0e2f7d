"""A monitor of this process over a stage's lanes, driven round by round; what it logs and counts is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.evm.stage import CHAIN_ID, Stage
from tests.waiting import until
from txmanager.chains.evm.reader import EvmReader
from txmanager.core.alerts import Alert
from txmanager.core.health import Health, Limits
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.care.monitor import Monitor, Watched

PERIODS = [6.0]
"""What a period is here, the last one counts: a fault is alerted in the first round after it and healed before the next
one. Without a guard, waiting for less proves as much."""
LIMITS = Limits(stuck_after_ms=1_000, overdue_after_ms=60_000, dropped_after_ms=0)


@dataclass
class Watch:
    stage: Stage
    limits: Limits = LIMITS
    logs: list[Any] = field(default_factory=list)

    @property
    def period_s(self) -> float:
        return PERIODS[-1]

    def __post_init__(self) -> None:
        self.reader = EvmReader(CHAIN_ID, [Endpoint(self.stage.machine.url, timeout_s=2.0)])
        self.monitor = self.another()

    def another(self) -> Monitor:
        """As after a restart: nothing is remembered."""
        watched = Watched("anvil", self.reader, self.limits)
        return Monitor(self.stage.ledger, {f"evm:{CHAIN_ID}": watched}, period_s=self.period_s)

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.reader.close()

    async def round(self) -> Health:
        """One comparison; answers the health of the stage's first lane."""
        found = {health.lane: health for health in await self.monitor.check_all()}
        return found[self.stage.lane_id]

    async def alerted(self, *alerts: Alert) -> Health:
        """The next round says so: by its answer, its metric and a line of the log."""
        seen = await self.round()
        for alert in alerts:
            assert alert in seen.alerts, (alert, seen)
            assert self.metric("txmanager_nonce_alert", alert=alert.value) == 1
            assert self.said("nonce alert", alert=alert.value, lane=self.stage.lane_id)
        return seen

    async def over(self, *alerts: Alert) -> Health:
        """The round after the healing says that it is over."""
        seen = await self.round()
        for alert in alerts:
            assert alert not in seen.alerts, (alert, seen)
            assert self.metric("txmanager_nonce_alert", alert=alert.value) == 0
            assert self.said("nonce alert over", alert=alert.value, lane=self.stage.lane_id)
        return seen

    async def healed(self, check: Any, what: str) -> None:
        """By the lane's owner, within a period of the alert."""
        await until(check, self.period_s, what=what)

    def metric(self, name: str, **labels: str) -> float:
        labels = {"lane": self.stage.lane_id, **labels}
        return self.monitor.metrics.registry.get_sample_value(name, labels) or 0.0

    def owners(self, name: str, **labels: str) -> float:
        """What the lane's owner counted."""
        assert self.stage.worker is not None
        labels = {"lane": self.stage.lane_id, **labels}
        return self.stage.worker.metrics.registry.get_sample_value(name, labels) or 0.0

    def said(self, event: str, **fields: Any) -> bool:
        return any(
            line["event"] == event and all(line.get(name) == value for name, value in fields.items())
            for line in self.logs
        )
