"""The sweeper: retires what crashes left, forgets claims that never became intents. One is enough, two are safe."""

from __future__ import annotations

import sys

from txmanager.programs.process import on_stop, run
from txmanager.runtime.care.sweeper import Sweeper
from txmanager.settings import Settings, load
from txmanager.wiring import open_ledger


async def serve(settings: Settings) -> None:
    ledger = await open_ledger(settings)
    sweeper = Sweeper(ledger)
    on_stop(sweeper.stop)
    try:
        await sweeper.run()
    finally:
        await ledger.close()


def main() -> int:
    return run(lambda: serve(load()))


if __name__ == "__main__":
    sys.exit(main())
