"""What can go wrong with a call to a node. All of it means "outcome unknown" unless the node itself said more.

RpcFailure (an `Unavailable`: retry the same call)
├── ConnectionFailed    refused, reset, TLS, name: trips the breaker
├── TimedOut            nothing within the time-out: trips the breaker
├── CircuitOpen         left alone after one of the above; nothing was sent
├── NotSent             there was no connection, or no right to send any more: surely nothing was written
├── RateLimited         HTTP 429
├── BadAnswer           bytes that are no JSON-RPC answer, or too many of them
│   ├── TooLong         more bytes than are read
│   └── TooLarge        HTTP 413: this node never takes a request of these bytes
└── RpcError            the node answered an error object; the adapter classifies it
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, TypeVar

from txmanager.core.errors import TxManagerError, Unavailable

T = TypeVar("T")
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxstring, _SHORT.maxother = 8, 16, 16, 200, 200


class RpcFailure(Unavailable):
    code = "rpc_failure"
    breaks = False
    """Whether the breaker counts it."""


class ConnectionFailed(RpcFailure):
    code = "rpc_connection_failed"
    breaks = True


class TimedOut(RpcFailure):
    code = "rpc_timed_out"
    breaks = True


class CircuitOpen(RpcFailure):
    code = "rpc_circuit_open"


class NotSent(RpcFailure):
    code = "rpc_not_sent"


class RateLimited(RpcFailure):
    code = "rpc_rate_limited"


class BadAnswer(RpcFailure):
    code = "rpc_bad_answer"


class TooLong(BadAnswer):
    code = "rpc_too_long"


class TooLarge(BadAnswer):
    code = "rpc_too_large"


class RpcError(RpcFailure):
    """A JSON-RPC error object, with whatever types the node chose made safe to read."""

    code = "rpc_error"

    def __init__(self, error: Any, status: int = 200) -> None:
        fields = error if isinstance(error, dict) else {}
        cause = fields.get("cause")
        cause = cause if isinstance(cause, dict) else {}
        number, name = fields.get("code"), fields.get("name")
        self.number = number if isinstance(number, int) and abs(number) < 2**31 else 0
        self.name = name[:100] if isinstance(name, str) else ""
        self.cause = cause["name"][:100] if isinstance(cause.get("name"), str) else ""
        self.info = cause["info"] if isinstance(cause.get("info"), dict) else {}
        self.reason, why = _reason(self.info.get("cause"))
        self.data = fields.get("data")
        self.status = status
        self.message = shown(fields.get("message", "") if fields else error)
        detail = shown(self.data) if self.data is not None else self.message
        super().__init__(f"{self.cause or self.name or f'error {self.number}'}{why}: {detail}")


def _reason(cause: Any) -> tuple[str, str]:
    """Why a node gave up, as newer ones say with a time-out: its name, and all of it for people."""
    if isinstance(cause, dict) and len(cause) == 1:
        [(name, body)] = cause.items()
        return str(name)[:100], f" ({shown(name, 100)} {shown(body, 100)})"
    if isinstance(cause, dict):
        name = cause.get("name")
        return (name[:100] if isinstance(name, str) else ""), f" ({shown(cause, 100)})"
    return (cause[:100], f" ({cause[:100]})") if isinstance(cause, str) else ("", "")


def shown(value: Any, limit: int = 300) -> str:
    """The beginning of whatever a node said: as deep or as large as it likes, it costs no more than its beginning."""
    if isinstance(value, str):
        return value[:limit]
    try:
        return _SHORT.repr(value)[:limit]
    except Exception as error:  # an integer of more digits than Python writes, for one
        return f"({type(error).__name__})"


def read_answer(read: Callable[[Any], T], answer: Any) -> T:
    """Whatever goes wrong while a node's answer is read is that node's fault: its `BadAnswer`, and nobody's break."""
    try:
        return read(answer)
    except TxManagerError:
        raise
    except Exception as error:
        raise BadAnswer(f"an answer that cannot be read ({type(error).__name__}): {shown(answer, 80)}") from error
