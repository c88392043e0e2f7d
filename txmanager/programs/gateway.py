"""The JSON-RPC gateway: what wallets and SDKs use instead of their node. Holds no key; run as many as you like.

Instances that share a Redis share one mempool for each chain. The line printed when it listens names the address.
"""

from __future__ import annotations

import json
import os
import sys

import structlog

from txmanager.api.server import ApiServer
from txmanager.core.errors import InvalidSettings
from txmanager.gateway import GatewayApp
from txmanager.programs.process import on_stop, run
from txmanager.runtime.gateway.lanes import OwnLanes
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.settings import ApiSettings, Settings, load
from txmanager.settings.gateway import GatewaySettings, with_seed_names
from txmanager.wiring import build_gateway, open_gateway_ledger


def with_environment(settings: Settings) -> tuple[Settings, GatewaySettings]:
    """`[gateway]` with the variables of the relays it replaces, where the file says nothing."""
    if settings.gateway is None:
        raise InvalidSettings("gateway", "is not configured; add the table [gateway], it may be empty")
    options, used = with_seed_names(settings.gateway, os.environ)
    url = os.environ.get("REDIS_URL")
    if url and options.store == "ledger" and "url" not in settings.ledger.model_fields_set:
        ledger = settings.ledger.model_validate({**settings.ledger.model_dump(exclude_unset=True), "url": url})
        settings = settings.model_copy(update={"ledger": ledger})
        used = {**used, "REDIS_URL": "set"}
    if used:
        structlog.get_logger("gateway").info("settings taken from the environment", **used)
    for contradiction in options.contradictions(settings.with_gateway(), settings.networks):
        raise contradiction
    return settings, options


async def serve(settings: Settings) -> None:
    settings, options = with_environment(settings)
    if options.store == "ledger" and not settings.ledger.reveal_url().startswith("redis"):
        raise InvalidSettings("gateway.store", 'must be "memory" if ledger.url is not Redis or Valkey')
    metrics = GatewayMetrics()
    ledger = open_gateway_ledger(settings) if options.store == "ledger" else None
    lanes = OwnLanes(ledger) if ledger is not None else None
    nodes, close = build_gateway(settings, options, metrics, lanes)
    served = ApiSettings(
        host=options.host,
        port=options.port,
        max_connections=options.max_connections,
        max_body_bytes=options.max_body_bytes,
    )
    server = ApiServer(GatewayApp(nodes, options, metrics), served)

    def listening() -> None:
        print(json.dumps({"url": f"http://{options.host}:{server.port}"}), flush=True)

    on_stop(server.stop)
    try:
        for node in nodes.values():
            await node.upstream.verify()
        if lanes is not None:
            await lanes.start()
        for node in nodes.values():
            await node.start()
        await server.run(listening)
    finally:
        for node in nodes.values():
            await node.stop()
        if lanes is not None:
            await lanes.stop()
        await close()
        if ledger is not None:
            await ledger.close()


def main() -> int:
    return run(lambda: serve(load()))


if __name__ == "__main__":
    sys.exit(main())
