"""The HTTP API: accepts intents and answers for them. Holds no private key; run as many as you like.

It serves the configuration's `[api]`; port 0 takes a free one. The line it prints when it listens names the address.
"""

from __future__ import annotations

import json
import sys

from txmanager.api import build_app
from txmanager.api.server import ApiServer
from txmanager.core.errors import InvalidSettings
from txmanager.programs.process import on_stop, run
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings, load
from txmanager.wiring import build_desks, build_probes, open_ledger, open_seals


async def serve(settings: Settings) -> None:
    for contradiction in settings.api.contradictions(settings.pools):
        raise contradiction
    if settings.ledger.reveal_url().startswith("memory:"):
        raise InvalidSettings("ledger.url", "memory:// is not shared between processes; the API needs Redis or Valkey")
    ledger = await open_ledger(settings)
    probes, close_probes = build_probes(settings)
    desks, close_desks = build_desks(settings)
    server = ApiServer(
        build_app(TxManager(ledger, seals=open_seals(settings)), settings, probes=probes, desks=desks), settings.api
    )

    def listening() -> None:
        print(json.dumps({"url": f"http://{settings.api.host}:{server.port}"}), flush=True)

    on_stop(server.stop)
    try:
        await server.run(listening)
    finally:
        await close_probes()
        await close_desks()
        await ledger.close()


def main() -> int:
    return run(lambda: serve(load()))


if __name__ == "__main__":
    sys.exit(main())
