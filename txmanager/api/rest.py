"""The surface of the HTTP API: bearer tokens, JSON bodies, problem+json, quotas and the audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from txmanager.api import bodies
from txmanager.api.auth import Caller, Gate, Right
from txmanager.api.bodies import Receive
from txmanager.api.call import Asgi, Audit, Call, Handler, Reply, problem_reply
from txmanager.api.metrics import ApiMetrics
from txmanager.api.operation import Errors, Operation, Parameter, Shape, Success
from txmanager.api.problems import Forbidden, Malformed, NotJson, QuotaUsed, TooLarge, TooSlow, Unauthorized
from txmanager.core.errors import InvalidInput, MemoryFull, TxManagerError, Unavailable, Unconfirmed
from txmanager.settings import ApiSettings

LEDGER: Errors = frozenset({Unavailable, Unconfirmed, MemoryFull})
"""What any call to the ledger may end with."""
_AUDITED: frozenset[Right] = frozenset({"operate", "steer", "cancel"})
_CHARGED: frozenset[Right] = frozenset({"submit", "cancel"})
_NOBODY = Caller(scopes=frozenset())


class Quota(Protocol):
    async def charge(self, caller: Caller) -> None: ...


@dataclass(frozen=True, slots=True)
class Rest:
    settings: ApiSettings
    gate: Gate
    metrics: ApiMetrics
    audit: Audit
    quotas: Quota

    async def admit(self, operation: Operation, scope: Asgi, receive: Receive) -> Call:
        """May raise `admission_errors`."""
        headers, right = dict(scope["headers"]), operation.right
        if right is None:
            return Call(scope, headers, _NOBODY, receive)
        client = scope.get("client")
        caller = self.gate.admit(headers, client[0] if client else "")
        call = Call(scope, headers, caller, receive)
        try:
            caller.need(right)
        except Forbidden as error:
            if right in _AUDITED:
                await self.audit.note(call, operation.path, right, error.code)
            raise
        if right == "submit" or (right == "cancel" and not caller.operates):
            await self.quotas.charge(caller)
        if operation.method == "POST":
            limit, timeout_s = self.settings.max_body_bytes, self.settings.body_timeout_s
            call.body = await bodies.read_body(headers, receive, limit, timeout_s)
        if right in _AUDITED:
            await self.audit.note(call, operation.path, right)
        return call

    def refuse(self, error: TxManagerError) -> Reply:
        return problem_reply(error)

    def answered(self, path: str, status: int, seconds: float) -> None:
        self.metrics.answered(path, status, seconds)


def admission_errors(method: str, right: Right | None, request: Shape | None) -> Errors:
    """What an operation may answer before its handler has the request, or while it reads the body."""
    if right is None:
        return frozenset()
    found: set[type[TxManagerError]] = {Unauthorized, Forbidden, QuotaUsed}
    if right in _AUDITED | _CHARGED:
        found |= LEDGER
    if method == "POST":
        found |= {TooLarge, TooSlow}
    if request is not None:
        found |= {NotJson, Malformed, InvalidInput}
    return frozenset(found)


def row(
    method: Literal["GET", "POST", "DELETE"],
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
) -> Operation:
    """An operation of this surface; `errors` are its handler's own."""
    errors |= admission_errors(method, right, request)
    return Operation(method, path, id, summary, right, handler, successes, errors, parameters, request, body_optional)
