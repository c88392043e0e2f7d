"""The signer: holds keys for workers on other accounts of this machine, or on other machines, and signs what its own
policy allows. It asks nobody, so a stolen worker cannot make it sign more.

`signer.metrics_port` of the configuration serves metrics for Prometheus.
"""

from __future__ import annotations

import asyncio
import sys

import structlog

from txmanager.programs.process import on_stop, run, serve_metrics
from txmanager.settings import Settings, load
from txmanager.wiring import open_signer

_log = structlog.get_logger("signer")


async def serve(settings: Settings) -> None:
    service = await open_signer(settings)
    options = settings.signer
    assert options is not None
    serve_metrics(options.metrics_host, options.metrics_port, service.metrics.registry, "signer.metrics_port")
    stopped = asyncio.Event()
    on_stop(stopped.set)
    _log.info("signer listens", at=options.listen, keys=sorted(options.keys), clients=sorted(options.clients))
    try:
        await stopped.wait()
    finally:
        await service.close()


def main() -> int:
    return run(lambda: serve(load()))


if __name__ == "__main__":
    sys.exit(main())
