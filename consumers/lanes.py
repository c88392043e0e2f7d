"""The lane worker: signs and submits for every lane it holds a key of. Run as many as you like.

Two or more share the lanes and take over from each other; each key's nonce sequence has one owner at a time.
"""

from __future__ import annotations

import sys

from prometheus_client import start_http_server

from consumers.process import on_stop, run
from txmanager.runtime.worker import Worker
from txmanager.settings import Settings, load
from txmanager.wiring import build_services, open_ledger, timing


async def serve(settings: Settings, metrics_port: int | None = None) -> None:
    services, chains = build_services(settings)
    ledger = await open_ledger(settings)
    worker = Worker(ledger, services, name=settings.worker.name, timing=timing(settings))
    if metrics_port is not None:
        start_http_server(metrics_port, addr="127.0.0.1", registry=worker.metrics.registry)
    on_stop(worker.stop)
    try:
        await worker.run()
    finally:
        for chain in chains:
            await chain.close()
        await ledger.close()


if __name__ == "__main__":
    sys.exit(run(lambda: serve(load())))
