"""The monitor: compares lanes with their chain, asks owners to look, and keeps purses filled. Holds no key, no lease.

One is enough, two stand in for each other. `monitor.metrics_port` of the configuration, or `TXMANAGER_METRICS_PORT`,
serves metrics for Prometheus; alerts are log lines `nonce alert` with a stable `alert`.
"""

from __future__ import annotations

import asyncio
import os
import sys

from txmanager.core.errors import InvalidSettings
from txmanager.programs.process import on_stop, run, serve_metrics
from txmanager.runtime.accept.billing import build_billing
from txmanager.runtime.care.monitor import Monitor
from txmanager.runtime.care.purse_metrics import PurseMetrics
from txmanager.runtime.care.purses import PurseKeeper
from txmanager.settings import Settings, load
from txmanager.wiring import build_purses, build_watched, open_ledger


async def serve(settings: Settings, metrics_port: int | None = None) -> None:
    if not any(settings.family(name).purses for name in settings.networks):
        raise InvalidSettings("networks", "has none whose chain can be monitored; there is nothing to monitor")
    options = settings.monitor
    ledger = await open_ledger(settings)
    watched, close_readers = build_watched(settings)
    cared, close_chains = build_purses(settings, ledger)
    monitor = Monitor(ledger, watched, period_s=options.period_s, reconcile_every_s=options.reconcile_every_s)
    metrics = PurseMetrics(monitor.metrics.registry)
    keeper = PurseKeeper(ledger, cared, build_billing(settings), period_s=options.period_s, metrics=metrics)
    serve_metrics(
        options.metrics_host, metrics_port or options.metrics_port, monitor.metrics.registry, "monitor.metrics_port"
    )

    def stop() -> None:
        monitor.stop()
        keeper.stop()

    on_stop(stop)
    try:
        await asyncio.gather(monitor.run(), keeper.run())
    finally:
        await close_readers()
        await close_chains()
        await ledger.close()


def main() -> int:
    port = os.environ.get("TXMANAGER_METRICS_PORT")
    return run(lambda: serve(load(), int(port) if port else None))


if __name__ == "__main__":
    sys.exit(main())
