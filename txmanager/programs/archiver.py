"""The archiver: takes what ended to the archive, a SQL database. One is enough, two are safe."""

from __future__ import annotations

import sys

from txmanager.core.errors import InvalidSettings
from txmanager.programs.process import on_stop, run, serve_metrics
from txmanager.runtime.deliver.archiver import Archiver, ArchiverMetrics
from txmanager.settings import Settings, load
from txmanager.wiring import build_kinds, open_archive_writer, open_ledger


async def serve(settings: Settings) -> None:
    options = settings.archive
    if options is None:
        raise InvalidSettings("archive", "is missing; add [archive]. It may be empty: SQLite is the default")
    archive = await open_archive_writer(options)
    ledger = await open_ledger(settings)
    metrics = ArchiverMetrics()
    serve_metrics(options.metrics_host, options.metrics_port, metrics.registry, "archive.metrics_port")
    archiver = Archiver(
        ledger,
        archive,
        build_kinds(settings),
        max_lag=options.max_lag,
        keep_s=options.keep_s,
        every_s=options.period_s,
        metrics=metrics,
    )
    on_stop(archiver.stop)
    try:
        await archiver.run()
    finally:
        await archive.close()
        await ledger.close()


def main() -> int:
    return run(lambda: serve(load()))


if __name__ == "__main__":
    sys.exit(main())
