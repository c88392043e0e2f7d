"""What a gateway counts and times, under documented names. All gauges return to 0 when nothing waits."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from txmanager.core.admission import Totals

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_STATES = ("waiting", "gapped", "processing", "unsure", "sent", "landed")


class GatewayMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.calls = self._counter(
            "calls", "JSON-RPC calls, by method (a known one, or other) and answer", "method", "answer"
        )
        self.offers = self._counter("offers", "Raw transactions offered, by what became of them", "word")
        self.sends = self._counter("sends", "Answers of nodes to sends, by fate", "fate")
        self.forced = self._counter("forced", "Holds taken over because their holder was late or dead")
        self.repeats = self._counter("repeats", "Sends of bytes that somebody may have sent before")
        self.store_failures = self._counter("store_failures", "Calls that the store did not answer")
        self.forwarded = self._counter("forwarded", "Transactions sent without the store (degraded mode)")
        self.ended = self._counter("ended", "Transactions that ended, by reason", "reason")
        self.hold_s = self._histogram("hold_seconds", "From the grant of a send to its answer")
        self.wait_s = self._histogram("wait_seconds", "From admission to the grant of a send")
        self.answer_s = self._histogram("answer_seconds", "From a raw transaction to the caller's answer")
        self.degraded = self._gauge("degraded", "1 while the store is away")
        self.held = self._gauge("held", "Sends that this process holds now")
        self.transactions = Gauge(
            "txmanager_gateway_transactions",
            "Transactions of the mempool, by state",
            ["chain", "state"],
            registry=self.registry,
        )
        self.bytes = self._gauge("bytes", "Bytes of all transactions of the mempool")
        self.senders = self._gauge("senders", "Senders that the mempool knows")
        self.instances = self._gauge("instances", "Gateway processes that share the mempool")

    def show(self, chain: str, totals: Totals) -> None:
        for state in _STATES:
            self.transactions.labels(chain, state).set(getattr(totals, state))
        self.bytes.labels(chain).set(totals.waiting_bytes + totals.kept_bytes)
        self.senders.labels(chain).set(totals.senders)
        self.instances.labels(chain).set(totals.alive)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"txmanager_gateway_{name}", text, ["chain"], registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"txmanager_gateway_{name}", text, ["chain", *labels], registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"txmanager_gateway_{name}", text, ["chain"], buckets=_FAST, registry=self.registry)
