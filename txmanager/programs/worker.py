"""The lane worker: signs and submits for every lane it holds a key of. Run as many as you like.

Two or more share the lanes and take over from each other; each key's nonce sequence has one owner at a time.
`worker.metrics_port` of the configuration, or `TXMANAGER_METRICS_PORT`, serves metrics for Prometheus.
"""

from __future__ import annotations

import os
import sys

from txmanager.programs.process import on_stop, run, serve_metrics
from txmanager.runtime.lane.worker import Worker
from txmanager.settings import Settings, load
from txmanager.wiring import build_discovery, build_services, open_ledger, open_seals, open_shares, open_tracer, timing


async def serve(settings: Settings, metrics_port: int | None = None) -> None:
    shares = open_shares()
    services, chains = build_services(settings, shares)
    ledger = await open_ledger(settings)
    discover = build_discovery(settings, chains)
    tracer = open_tracer(settings, "worker")
    worker = Worker(
        ledger,
        services,
        name=settings.worker.name,
        timing=timing(settings),
        discover=discover,
        seals=open_seals(settings),
        on_members=shares.among,
        tracer=tracer,
    )
    serve_metrics(settings.worker.metrics_host, metrics_port or settings.worker.metrics_port, worker.metrics.registry)
    on_stop(worker.stop)
    try:
        await worker.run()
    finally:
        for chain in chains:
            await chain.close()
        await ledger.close()
        if tracer is not None:
            tracer.close()


def main() -> int:
    port = os.environ.get("TXMANAGER_METRICS_PORT")
    return run(lambda: serve(load(), int(port) if port else None))


if __name__ == "__main__":
    sys.exit(main())
