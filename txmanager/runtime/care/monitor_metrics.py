"""What a monitor measures of each lane, under documented names; one registry per process."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Gauge

from txmanager.core.alerts import Alert
from txmanager.core.health import Health


class MonitorMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._counters: list[Counter] = []
        self._tracked = self._gauge("nonce_tracked", "The next nonce that the lane hands out")
        self._chain = self._gauge("nonce_chain", "The next nonce after the newest block")
        self._pool = self._gauge("nonce_pool", "The next nonce after what the pools hold")
        self._pending = self._gauge("nonce_pending", "Nonces in flight and in no block")
        self._oldest = self._gauge("nonce_oldest_pending_seconds", "Age of the oldest of them")
        self._gaps = self._gauge("nonce_gaps", "Numbers below the next one that belong to nobody")
        self._balance = self._gauge("nonce_balance", "What the address has, in wei")
        self._alert = self._gauge("nonce_alert", "1 while the alert is on, by its name", "alert")
        self.alerts = self._counter("nonce_alerts", "Alerts that began, by name", "alert")
        self.checks = self._counter("monitor_checks", "Comparisons of a lane with its chain")
        self.asks = self._counter("monitor_asks", "Requests to a lane's owner")
        self.failures = self._counter("monitor_failures", "Comparisons that got no answer, by class", "error")
        self.rounds = Counter("txmanager_monitor_rounds", "Rounds over all lanes", registry=self.registry)
        self.last_round = Gauge(
            "txmanager_monitor_last_round_timestamp_seconds", "When the last round ended", registry=self.registry
        )

    def note(self, seen: Health) -> None:
        lane = seen.lane
        self.checks.labels(lane).inc()
        self._tracked.labels(lane).set(seen.tracked_nonce)
        self._chain.labels(lane).set(seen.chain_nonce)
        if seen.pool_nonce is not None:
            self._pool.labels(lane).set(seen.pool_nonce)
        self._pending.labels(lane).set(len(seen.pending))
        self._oldest.labels(lane).set(seen.oldest_pending_ms / 1000)
        self._gaps.labels(lane).set(len(seen.gaps))
        self._balance.labels(lane).set(seen.balance)
        for alert in Alert:
            self._alert.labels(lane, alert.value).set(alert in seen.alerts)

    def forget(self, lanes: Collection[str]) -> None:
        """Lanes that are closed or left the registry have no health; labels do not grow for ever."""
        for lane in lanes:
            self._forget_health(lane)
        for counter in self._counters:  # by hand: the library looks at all of them for each lane
            for labels in [labels for labels in counter._metrics if labels[0] in lanes]:
                counter.remove(*labels)

    def _forget_health(self, lane: str) -> None:
        for gauge in (self._tracked, self._chain, self._pool, self._pending, self._oldest, self._gaps, self._balance):
            with contextlib.suppress(KeyError):
                gauge.remove(lane)
        for alert in Alert:
            with contextlib.suppress(KeyError):
                self._alert.remove(lane, alert.value)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"txmanager_{name}", text, ["lane", *labels], registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        counter = Counter(f"txmanager_{name}", text, ["lane", *labels], registry=self.registry)
        self._counters.append(counter)
        return counter
