"""The webhook deliverer: posts the lanes' events to each pool's targets. One is enough, two stand in for each other."""

from __future__ import annotations

import sys

from txmanager.programs.process import on_stop, run
from txmanager.runtime.deliver.webhooks import Webhooks
from txmanager.settings import Settings, load
from txmanager.wiring import build_targets, open_ledger, open_tracer


async def serve(settings: Settings) -> None:
    targets, close = build_targets(settings)
    ledger = await open_ledger(settings)
    tracer = open_tracer(settings, "webhooks")
    webhooks = Webhooks(ledger, ledger.mailbox, targets, tracer=tracer, read=ledger.read)
    on_stop(webhooks.stop)
    try:
        await webhooks.run()
    finally:
        close()
        await ledger.close()
        if tracer is not None:
            tracer.close()


def main() -> int:
    return run(lambda: serve(load()))


if __name__ == "__main__":
    sys.exit(main())
