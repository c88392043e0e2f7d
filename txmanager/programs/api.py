"""The HTTP API: accepts intents and answers for them. Holds no private key; run as many as you like.

It serves the configuration's `[api]`; port 0 takes a free one. The line it prints when it listens names the address.
"""

from __future__ import annotations

import json
import sys
from functools import partial

import structlog

from txmanager.api import build_app
from txmanager.api.server import ApiServer
from txmanager.core.errors import InvalidSettings
from txmanager.programs.process import on_stop, run
from txmanager.runtime.accept.billing import build_billing, too_small
from txmanager.runtime.care.purses import PurseKeeper
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings, load
from txmanager.wiring import (
    build_desks,
    build_probes,
    build_purses,
    open_archive_reader,
    open_lane_chain,
    open_ledger,
    open_seals,
    open_tracer,
)


async def serve(settings: Settings) -> None:
    for contradiction in settings.api.contradictions(settings.pools):
        raise contradiction
    if settings.ledger.reveal_url().startswith("memory:"):
        raise InvalidSettings("ledger.url", "memory:// is not shared between processes; the API needs Redis or Valkey")
    archive = await open_archive_reader(settings)
    ledger = await open_ledger(settings)
    probes, close_probes = build_probes(settings)
    desks, close_desks = build_desks(settings)
    cared, close_purses = build_purses(settings, ledger, pays=False)
    billing = build_billing(settings)
    for warning in too_small(settings, billing):
        structlog.get_logger("api").warning(warning)
    tracer = open_tracer(settings, "api")
    manager = TxManager(ledger, seals=open_seals(settings), archive=archive)
    dry_run = manager.dry_run(partial(open_lane_chain, settings))
    look = PurseKeeper(ledger, cared, billing).look
    app = build_app(manager, settings, probes=probes, desks=desks, dry_run=dry_run, tracer=tracer, purses=look)
    server = ApiServer(app, settings.api)

    def listening() -> None:
        print(json.dumps({"url": f"http://{settings.api.host}:{server.port}"}), flush=True)

    on_stop(server.stop)
    try:
        await server.run(listening)
    finally:
        await close_probes()
        await close_desks()
        await close_purses()
        await dry_run.close()
        await ledger.close()
        if archive is not None:
            await archive.close()
        if tracer is not None:
            tracer.close()


def main() -> int:
    return run(lambda: serve(load()))


if __name__ == "__main__":
    sys.exit(main())
