"""The lane worker: signs and submits for every lane it holds a key of. Run as many as you like.

Two or more share the lanes and take over from each other; each key's nonce sequence has one owner at a time.
`worker.metrics_port` of the configuration, or `TXMANAGER_METRICS_PORT`, serves metrics for Prometheus.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

import structlog

from txmanager.core.errors import BadSignature, InvalidSettings, SignerFault
from txmanager.programs.process import on_stop, run, serve_metrics
from txmanager.runtime.lane.worker import Service, Worker
from txmanager.settings import Settings, load
from txmanager.wiring import build_discovery, build_services, open_ledger, open_seals, open_shares, open_tracer, timing

_log = structlog.get_logger("worker")


async def try_keys(services: Mapping[str, Service]) -> None:
    """A trial signature of every key elsewhere. A wrong one ends the program before it serves anything. A signer that
    is away or refuses stops only its own lanes, later."""

    async def try_one(lane: str, service: Service) -> None:
        try:
            await service.chain.trial(lane)
        except BadSignature as wrong:
            raise InvalidSettings(f"pools.{service.spec.pool}.keys", str(wrong)) from None
        except SignerFault as fault:
            _log.warning("no trial signature", lane=lane, code=fault.code, error=str(fault))

    elsewhere = [(lane, s) for lane, s in services.items() if not s.chain.instant(lane)]
    await asyncio.gather(*(try_one(lane, service) for lane, service in elsewhere))


async def serve(settings: Settings, metrics_port: int | None = None) -> None:
    shares = open_shares()
    services, chains = build_services(settings, shares)
    await try_keys(services)
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
