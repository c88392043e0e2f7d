"""What a monitor measures of purses and treasuries, under documented names."""

from __future__ import annotations

import contextlib

from prometheus_client import CollectorRegistry, Counter, Gauge

LOW = "low"
REFUSED = "top_up_refused"
ALERTS = (LOW, REFUSED)


class PurseMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._purses: set[tuple[str, str]] = set()
        self._balance = self._gauge(
            "purse_balance", "What a purse can spend, in the chain's smallest unit", "purse", "kind"
        )
        self._alert = self._gauge("purse_alert", "1 while the alert is on, by its name", "purse", "kind", "alert")
        self._treasury = self._gauge("treasury_balance", "What the lanes of a treasury pool can spend", "pool")
        self._per_day = self._gauge("treasury_per_day", "What a treasury pool pays in a day", "pool")
        self._days = self._gauge("treasury_days_left", "How long that lasts; absent while nothing is paid", "pool")
        self.top_ups = Counter("txmanager_top_ups", "Top-ups asked for", ["purse"], registry=self.registry)
        self.failures = Counter(
            "txmanager_purse_failures", "Purses that could not be read, by class", ["error"], registry=self.registry
        )

    def note(self, purse: str, kind: str, balance: int, alerts: set[str]) -> None:
        self._purses.add((purse, kind))
        self._balance.labels(purse, kind).set(balance)
        for alert in ALERTS:
            self._alert.labels(purse, kind, alert).set(alert in alerts)

    def note_treasury(self, pool: str, balance: int, per_day: int, days: float | None) -> None:
        self._treasury.labels(pool).set(balance)
        self._per_day.labels(pool).set(per_day)
        if days is not None:
            self._days.labels(pool).set(days)
        else:
            with contextlib.suppress(KeyError):
                self._days.remove(pool)

    def keep(self, purses: set[tuple[str, str]]) -> None:
        """Of purses that no lane pays from any more nothing is said."""
        for gone in self._purses - purses:
            self._balance.remove(*gone)
            for alert in ALERTS:
                self._alert.remove(*gone, alert)
        self._purses &= purses

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"txmanager_{name}", text, labels, registry=self.registry)
