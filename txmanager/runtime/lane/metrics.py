"""What a worker counts and times, under documented names; one registry per process."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._gauges: list[Gauge] = []
        self._counters: list[Counter] = []
        self.depth = self._gauge("queue_depth", "Entries in the lane's queue")
        self.oldest = self._gauge("oldest_seconds", "Age of the oldest intent in flight")
        self.inflight = self._gauge("inflight", "Intents with attempts and no end")
        self.balance = self._gauge("balance", "What the lane can spend, in the chain's smallest unit")
        self.lanes_owned = Gauge("txmanager_lanes_owned", "Lanes this worker owns", registry=self.registry)
        self.sign_s = self._histogram("sign_seconds", "Prepare and sign one batch")
        self.record_s = self._histogram("record_seconds", "Write one batch ahead")
        self.broadcast_s = self._histogram("broadcast_seconds", "Send one batch")
        self.settle_s = self._histogram("settle_seconds", "Accepted until settled")
        self.settled = self._counter("settled", "Intents that ended", "status")
        self.sends = self._counter("sends", "Answers to sends, by verdict", "verdict")
        self.rpc_errors = self._counter("rpc_errors", "Look-ups and sends that got no answer, by class", "error")
        self.overtaken = self._counter("overtaken", "Attempts proven dead, by cause", "cause")
        self.rebroadcasts = self._counter("rebroadcasts", "Same bytes sent again")
        self.resigns = self._counter("resigns", "Intents signed again after a proof of death")
        self.replacements = self._counter("replacements", "Same nonce at a better price")
        self.priced_out = self._counter("priced_out", "Better prices that would have passed the cap")
        self.fills = self._counter("fills", "No-ops at nonces that belong to nobody")
        self.cancels = self._counter("stuck_cancels", "Intents given up by a no-op for being late")
        self.saved = self._counter("saved", "Intents refused before signing that would have failed at our cost", "why")
        self.checks = self._counter("checks", "Comparisons with the chain that a monitor asked for")
        self.leases = self._counter("lease_changes", "Leases won and lost", "change")
        self.stalled = self._gauge("stalled", "1 while the ledger, every node or the signer is away")
        self.signer_faults = self._counter("signer_faults", "Signatures that a signer did not give, by code", "code")
        self.fenced = self._counter("fenced_writes", "Writes refused because another owner holds the lane")
        self.quarantines = self._counter("quarantines", "Lanes quarantined, by reason", "reason")
        self.unconfirmed = self._gauge("unconfirmed", "Intents whose end too few nodes confirm, or that they dispute")
        self.disagreements = self._counter("disagreements", "Nodes contradicted each other, by what about", "about")
        self.breaks = self._counter("breaks", "Exceptions that nobody foresaw, by type", "exception")
        self.shelved = self._counter("shelved", "Final records that could not be retired, and were set aside")
        self.excess = self._counter("excess", "Intents that cost more than budgets were charged for them")
        self.holds = self._counter("holds", "Intents held, by reason", "reason")
        self.retired = Counter("txmanager_retired", "Final records moved to their homes", registry=self.registry)

    def forget(self, lanes: Collection[str]) -> None:
        """They left the registry: what was counted of them goes, so that labels do not grow for ever."""
        for lane in lanes:
            self.left(lane)
        for counter in self._counters:  # by hand: the library looks at all of them for each lane
            for labels in [labels for labels in counter._metrics if labels[0] in lanes]:
                counter.remove(*labels)

    def left(self, lane: str) -> None:
        """Somebody else knows now how the lane is: what it was here would be told for ever."""
        for gauge in self._gauges:
            with contextlib.suppress(KeyError):
                gauge.remove(lane)

    def _gauge(self, name: str, text: str) -> Gauge:
        self._gauges.append(gauge := Gauge(f"txmanager_{name}", text, ["lane"], registry=self.registry))
        return gauge

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"txmanager_{name}", text, buckets=_FAST, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        counter = Counter(f"txmanager_{name}", text, ["lane", *labels], registry=self.registry)
        self._counters.append(counter)
        return counter
