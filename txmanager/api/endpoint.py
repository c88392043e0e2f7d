"""From an ASGI request to a handler and back: one place that admits, one that answers errors, one that counts.

A handler gets a `Call` and returns a `Reply` or a stream. Whatever it raises is answered by its `Surface`; nothing of
an unexpected error but its log line leaves the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

import structlog

from txmanager.api.bodies import Gone, Receive
from txmanager.api.call import Asgi, Call, Reply, Send
from txmanager.api.operation import Errors, Operation
from txmanager.api.problems import SERVER_ERRORS, WrongMethod, line_of
from txmanager.core.errors import TxManagerError
from txmanager.core.trace import RequestSpan, Tracer, traceparent


class Surface(Protocol):
    """What a family of operations has in common: who is let in, how a body is read, how an error is answered. HTTP's is
    `Rest`; a JSON-RPC endpoint brings its own."""

    async def admit(self, operation: Operation, scope: Asgi, receive: Receive) -> Call: ...

    def refuse(self, error: TxManagerError) -> Reply: ...

    def answered(self, path: str, status: int, seconds: float) -> None: ...


class Endpoint:
    """An ASGI application for one path: the operations that share it, one per method."""

    def __init__(self, surface: Surface, operations: Sequence[Operation], tracer: Tracer | None = None) -> None:
        self._surface = surface
        self._tracer = tracer
        self._path = operations[0].path
        self._by_method = {operation.method: operation for operation in operations}
        self._allow = ", ".join(sorted(self._by_method)).encode()
        self._log = structlog.get_logger("api")

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        started = perf_counter()
        call: Call | None = None
        span: RequestSpan | None = None
        operation = self._by_method.get(scope["method"])
        try:
            if operation is None:
                raise WrongMethod(f"{scope['method']} is not possible here")
            call = await self._surface.admit(operation, scope, receive)
            if self._tracer is not None and operation.right == "submit":
                parent = traceparent(call.headers.get(b"traceparent", b""))
                span = self._tracer.request(parent, f"{operation.method} {self._path}")
                call.trace = span.trace
            reply = await operation.handler(call)
        except TxManagerError as error:
            reply = self._refused(error, operation.errors if operation else SERVER_ERRORS)
        except (Gone, asyncio.CancelledError):
            raise
        except Exception:
            self._log.exception("request failed", route=self._path)
            reply = self._surface.refuse(TxManagerError("internal"))
        if call is None and scope["method"] != "GET" and isinstance(reply, Reply):
            reply.headers.append((b"connection", b"close"))  # its body may still be on the way
        self._surface.answered(self._path, reply.status, perf_counter() - started)
        if span is not None:
            span.end(reply.status)
        await reply.send(call, send)

    def _refused(self, error: TxManagerError, declared: Errors) -> Reply:
        reply = self._surface.refuse(error)
        if isinstance(error, WrongMethod):
            reply.headers.append((b"allow", self._allow))
        if reply.status == 500:
            self._log.error("request failed", route=self._path, code=error.code, error=str(error))
        elif line_of(error) not in declared | SERVER_ERRORS:
            self._log.error("undeclared error", route=self._path, code=error.code)
        return reply
