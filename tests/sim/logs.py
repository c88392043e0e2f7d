"""The code's own log: silent in a run of many schedules, except that an unexpected exception is a finding."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import structlog

from tests.sim.history import Broke, History

_history: History | None = None


class QuietLogger:
    """Stands in for structlog's bound logger; building the real one costs more than the step it describes."""

    __slots__ = ("_bound",)

    def __init__(self, bound: dict[str, Any] | None = None) -> None:
        self._bound = bound or {}

    def bind(self, **more: Any) -> QuietLogger:
        return QuietLogger({**self._bound, **more})

    def _say(self, level: str, event: str, told: dict[str, Any]) -> None:
        if _history is not None and _history.lines is not None:
            words = " ".join(f"{k}={v}" for k, v in {**self._bound, **told}.items())
            _history.lines.append(f"{_history.time():9.3f}  {level:7} {event} {words}")

    def debug(self, event: str, **told: Any) -> None:
        pass

    def info(self, event: str, **told: Any) -> None:
        self._say("info", event, told)

    def warning(self, event: str, **told: Any) -> None:
        self._say("warning", event, told)

    def error(self, event: str, **told: Any) -> None:
        self._say("error", event, told)

    def exception(self, event: str, **told: Any) -> None:
        self._say("broke", event, told)
        if _history is not None:
            error = sys.exc_info()[1]
            leaf: BaseException | None = error
            while isinstance(leaf, BaseExceptionGroup):
                leaf = leaf.exceptions[0]
            where = traceback.extract_tb(leaf.__traceback__)[-1] if leaf is not None else None
            place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}" if where else ""
            _history.note(Broke(_history.time(), f"{event}: {type(leaf).__name__}: {leaf} at {place}"))


_get_logger = structlog.get_logger


def listen(history: History | None) -> None:
    """Log into `history` from now on; with None, the way it was before."""
    global _history
    _history = history
    structlog.get_logger = _get_logger if history is None else lambda *_: QuietLogger()
