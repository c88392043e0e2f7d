"""The surface of the HTTP API: bearer tokens, JSON bodies, problem+json, quotas and the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from txmanager.api import bodies
from txmanager.api.auth import Caller, Right
from txmanager.api.bodies import Receive
from txmanager.api.call import Asgi, Audit, Call, Handler, Reply, problem_reply
from txmanager.api.metrics import ApiMetrics
from txmanager.api.ndjson import is_ndjson
from txmanager.api.operation import Errors, Method, Operation, Parameter, Shape, Success
from txmanager.api.problems import Forbidden, Malformed, NotJson, QuotaUsed, TooLarge, TooSlow, Unauthorized
from txmanager.core.errors import InvalidInput, MemoryFull, TxManagerError, Unavailable, Unconfirmed
from txmanager.settings import ApiSettings

LEDGER: Errors = frozenset({Unavailable, Unconfirmed, MemoryFull})
"""What any call to the ledger may end with."""
_AUDITED: frozenset[Right] = frozenset({"operate", "steer", "cancel"})
_CHARGED: frozenset[Right] = frozenset({"submit", "cancel"})
_NOBODY = Caller(scopes=frozenset())


class Door(Protocol):
    async def admit(self, headers: Mapping[bytes, bytes], address: str) -> Caller:
        """Who is calling, or `Unauthorized`."""
        ...


class Quota(Protocol):
    async def charge(self, caller: Caller) -> None: ...


@dataclass(frozen=True, slots=True)
class Rest:
    settings: ApiSettings
    door: Door
    metrics: ApiMetrics
    audit: Audit
    quotas: Quota

    async def admit(self, operation: Operation, scope: Asgi, receive: Receive) -> Call:
        """May raise `admission_errors`."""
        headers, right = dict(scope["headers"]), operation.right
        if right is None:
            return Call(scope, headers, _NOBODY, receive, await self._body(operation, headers, receive))
        client = scope.get("client")
        caller = await self.door.admit(headers, client[0] if client else "")
        call = Call(scope, headers, caller, receive)
        try:
            caller.need(right)
        except Forbidden as error:
            if right in _AUDITED:
                await self.audit.note(call, operation.path, right, error.code)
            raise
        if right == "submit" or (right == "cancel" and not caller.operates):
            await self.quotas.charge(caller)
        call.body = await self._body(operation, headers, receive)
        if right in _AUDITED:
            await self.audit.note(call, operation.path, right)
        return call

    async def _body(self, operation: Operation, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        if operation.method != "POST" or (operation.lines is not None and is_ndjson(headers)):
            return b""
        return await bodies.read_body(headers, receive, self.settings.max_body_bytes, self.settings.body_timeout_s)

    def refuse(self, error: TxManagerError) -> Reply:
        return problem_reply(error)

    def answered(self, path: str, status: int, seconds: float) -> None:
        self.metrics.answered(path, status, seconds)


def admission_errors(method: str, right: Right | None, request: Shape | None) -> Errors:
    """What an operation may answer before its handler has the request, or while it reads the body."""
    found: set[type[TxManagerError]] = set()
    if right is not None:
        found |= {Unauthorized, Forbidden, QuotaUsed, Unavailable}
    if right in _AUDITED | _CHARGED:
        found |= LEDGER
    if method == "POST":
        found |= {TooLarge, TooSlow}
    if request is not None:
        found |= {NotJson, Malformed, InvalidInput}
    return frozenset(found)


def row(
    method: Method,
    path: str,
    id: str,
    summary: str,
    right: Right | None,
    handler: Handler,
    *successes: Success,
    errors: Errors = frozenset(),
    parameters: tuple[Parameter, ...] = (),
    request: Shape | None = None,
    body_optional: bool = False,
    lines: tuple[Shape, Shape] | None = None,
) -> Operation:
    """An operation of this surface; `errors` are its handler's own."""
    errors |= admission_errors(method, right, request)
    return Operation(
        method, path, id, summary, right, handler, successes, errors, parameters, request, body_optional, lines
    )
