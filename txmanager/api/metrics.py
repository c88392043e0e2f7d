"""What the API counts and times; the names are documented in docs/http.md and do not change."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ApiMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._requests = Counter(
            "txmanager_http_requests", "Requests answered", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "txmanager_http_request_seconds",
            "From admission to the answer, waiting included",
            ["route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._accepted = Counter("txmanager_http_accepted", "New intents accepted", ["kind"], registry=self.registry)
        self._replayed = Counter(
            "txmanager_http_replayed", "Submits answered from a known key", ["kind"], registry=self.registry
        )
        self.streams = Gauge("txmanager_http_streams", "Open event streams", registry=self.registry)
        self.connections = Gauge("txmanager_http_connections", "Open connections", registry=self.registry)
        self._aborted = Counter(
            "txmanager_http_aborted",
            "Connections closed for what the client did not do",
            ["reason"],
            registry=self.registry,
        )
        self.bad_tokens = Gauge(
            "txmanager_http_bad_tokens", "Requests with an unknown token since the start", registry=self.registry
        )
        self.budget_limit = Gauge(
            "txmanager_budget_limit", "What a budget pays for within its span", ["budget"], registry=self.registry
        )
        self.budget_used = Gauge(
            "txmanager_budget_used", "What is charged to it and was spent from it", ["budget"], registry=self.registry
        )
        self._counts: dict[tuple[str, int], Counter] = {}
        self._times: dict[str, Histogram] = {}
        self._submits: dict[tuple[str, bool], Counter] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        count = self._counts.get((route, status))
        if count is None:
            count = self._counts[route, status] = self._requests.labels(route, str(status))
        count.inc()
        times = self._times.get(route)
        if times is None:
            times = self._times[route] = self._seconds.labels(route)
        times.observe(seconds)

    def submitted(self, kind: str, *, replayed: bool) -> None:
        count = self._submits.get((kind, replayed))
        if count is None:
            count = self._submits[kind, replayed] = (self._replayed if replayed else self._accepted).labels(kind)
        count.inc()

    def aborted(self, reason: str) -> None:
        self._aborted.labels(reason).inc()

    def render(self) -> bytes:
        return generate_latest(self.registry)
