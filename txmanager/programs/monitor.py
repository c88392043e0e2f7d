"""The monitor: compares lanes with their chain, raises alerts, asks owners to look. Holds no key, no lease.

One is enough, two stand in for each other. `monitor.metrics_port` of the configuration, or `TXMANAGER_METRICS_PORT`,
serves metrics for Prometheus; alerts are log lines `nonce alert` with a stable `alert`.
"""

from __future__ import annotations

import os
import sys

from txmanager.core.errors import InvalidSettings
from txmanager.programs.process import on_stop, run, serve_metrics
from txmanager.runtime.care.monitor import Monitor
from txmanager.settings import Settings, load
from txmanager.wiring import build_watched, open_ledger


async def serve(settings: Settings, metrics_port: int | None = None) -> None:
    if not any(settings.family(name).watching for name in settings.networks):
        raise InvalidSettings("networks", "has none whose chain can be monitored; there is nothing to monitor")
    told = settings.monitor
    ledger = await open_ledger(settings)
    watched, close = build_watched(settings, ledger)
    monitor = Monitor(ledger, watched, period_s=told.period_s, reconcile_every_s=told.reconcile_every_s)
    serve_metrics(
        told.metrics_host, metrics_port or told.metrics_port, monitor.metrics.registry, "monitor.metrics_port"
    )
    on_stop(monitor.stop)
    try:
        await monitor.run()
    finally:
        await close()
        await ledger.close()


def main() -> int:
    port = os.environ.get("TXMANAGER_METRICS_PORT")
    return run(lambda: serve(load(), int(port) if port else None))


if __name__ == "__main__":
    sys.exit(main())
