"""What every program does the same way: logs as JSON lines, one graceful stop, one hard one."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
import uvloop
from prometheus_client import CollectorRegistry, start_http_server
from structlog.tracebacks import ExceptionDictTransformer

from txmanager.core.errors import InvalidInput, InvalidSettings, Misconfigured, TxManagerError


def configure_logs(level: str | None = None) -> None:
    name = (level or os.environ.get("TXMANAGER_LOG_LEVEL", "info")).upper()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Without the locals of each frame: they are big, and may hold what must not be logged.
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, name, logging.INFO)),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    logging.basicConfig(handlers=[_JsonLines()], level=logging.WARNING, force=True)


class _JsonLines(logging.Handler):
    """What libraries log becomes lines of the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def calm_collector() -> None:
    """Many short-lived objects and few cycles: collect rarely, and never look again at what start-up made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def serve_metrics(
    host: str, port: int | None, registry: CollectorRegistry, setting: str = "worker.metrics_port"
) -> None:
    """For Prometheus, in a thread of its own: a busy loop still answers."""
    if port is None:
        return
    try:
        start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise InvalidSettings(setting, f"cannot listen at {host}:{port}: {error.strerror}") from None


def on_stop(stop: Callable[[], None]) -> None:
    """First SIGTERM or SIGINT: `stop`. Second: exit at once; whatever is in flight is recovered by the next owner."""
    loop = asyncio.get_running_loop()
    asked = False

    def handle() -> None:
        nonlocal asked
        if asked:
            os._exit(1)
        asked = True
        stop()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, handle)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """The exit code: 0 after a graceful stop, 2 for what an operator must fix first, 1 for the rest."""
    configure_logs()
    calm_collector()
    try:
        uvloop.run(main())
    except (InvalidInput, Misconfigured) as error:
        print(f"txmanager: {error}", file=sys.stderr)
        return 2
    except TxManagerError as error:
        print(f"txmanager: {error}", file=sys.stderr)
        return 1
    return 0
