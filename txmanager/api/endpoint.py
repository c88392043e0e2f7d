"""From an ASGI request to a handler and back: admission, body, one place that answers errors, one that counts.

A handler gets a `Call` and returns a `Reply` or a stream. Whatever it raises becomes problem+json; nothing of an
unexpected error but its log line leaves the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

import orjson
import structlog

from txmanager.api import bodies
from txmanager.api.auth import Caller, Gate, Right
from txmanager.api.bodies import Gone, Receive
from txmanager.api.metrics import ApiMetrics
from txmanager.api.problems import Forbidden, WrongMethod, encoded
from txmanager.core.errors import InvalidInput, TxManagerError
from txmanager.settings import ApiSettings

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Asgi = MutableMapping[str, Any]
Header = tuple[bytes, bytes]
_JSON: Header = (b"content-type", b"application/json")


@dataclass(slots=True)
class Call:
    """One admitted request."""

    scope: Asgi
    headers: Mapping[bytes, bytes]
    caller: Caller
    receive: Receive
    body: bytes = b""
    _query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        if self._query is None:
            text = self.scope["query_string"].decode("latin-1")
            self._query = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100)) if text else {}
        return self._query

    @property
    def tenant(self) -> str:
        """Whose intents it is about: the token's tenant, or with `tenant = "*"` the one that `?tenant=` names."""
        return self.caller.tenant_for(self.query.get("tenant"))

    def path(self, name: str) -> str:
        """A part of the path as it was meant: routes are matched before percent signs are resolved."""
        return unquote(self.scope["path_params"][name])

    def seconds(self, name: str, most: float) -> float:
        text = self.query.get(name)
        if text is None:
            return 0.0
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= most:
            raise InvalidInput(name, f"must be a number of seconds from 0 to {most:g}")
        return value

    async def disconnected(self) -> None:
        """Returns when the client is gone."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


class Answering(Protocol):
    @property
    def status(self) -> int: ...

    async def send(self, call: Call | None, send: Send) -> None: ...


@dataclass(slots=True)
class Reply:
    status: int
    body: bytes
    headers: list[Header] = field(default_factory=lambda: [_JSON])

    async def send(self, call: Call | None, send: Send) -> None:
        headers = [*self.headers, (b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_reply(value: object, status: int = 200) -> Reply:
    return Reply(status, orjson.dumps(value))


def problem_reply(error: TxManagerError) -> Reply:
    return Reply(*encoded(error))


Handler = Callable[[Call], Awaitable[Answering]]


class Audit(Protocol):
    async def note(self, call: Call, route: str, right: Right, refused: str = "") -> None: ...


class Quota(Protocol):
    async def charge(self, caller: Caller) -> None: ...


_AUDITED: frozenset[Right] = frozenset({"operate", "steer", "cancel"})


@dataclass(frozen=True, slots=True)
class Common:
    """What every endpoint shares."""

    settings: ApiSettings
    gate: Gate
    metrics: ApiMetrics
    audit: Audit
    quotas: Quota
    log: structlog.typing.FilteringBoundLogger


class Endpoint:
    """An ASGI application for one path: a handler per method."""

    def __init__(self, common: Common, name: str, **handlers: tuple[Handler, Right | None]) -> None:
        self._common = common
        self._name = name
        self._handlers = handlers
        self._allow = ", ".join(sorted(handlers)).encode()

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        started = perf_counter()
        call: Call | None = None
        try:
            call, handler = await self._admit(scope, receive)
            reply = await handler(call)
        except TxManagerError as error:
            reply = self._refused(error)
        except (Gone, asyncio.CancelledError):
            raise
        except Exception:
            self._common.log.exception("request failed", route=self._name)
            reply = problem_reply(TxManagerError("internal"))
        if call is None and scope["method"] != "GET" and isinstance(reply, Reply):
            reply.headers.append((b"connection", b"close"))  # its body may still be on the way
        self._common.metrics.answered(self._name, reply.status, perf_counter() - started)
        await reply.send(call, send)

    async def _admit(self, scope: Asgi, receive: Receive) -> tuple[Call, Handler]:
        headers = dict(scope["headers"])
        method = scope["method"]
        found = self._handlers.get(method)
        if found is None:
            raise WrongMethod(f"{method} is not possible here")
        handler, right = found
        common = self._common
        if right is None:
            return Call(scope, headers, _NOBODY, receive), handler
        client = scope.get("client")
        caller = common.gate.admit(headers, client[0] if client else "")
        call = Call(scope, headers, caller, receive)
        try:
            caller.need(right)
        except Forbidden as error:
            if right in _AUDITED:
                await common.audit.note(call, self._name, right, error.code)
            raise
        if right == "submit" or (right == "cancel" and not caller.operates):
            await common.quotas.charge(caller)
        if method == "POST":
            settings = common.settings
            call.body = await bodies.read_body(headers, receive, settings.max_body_bytes, settings.body_timeout_s)
        if right in _AUDITED:
            await common.audit.note(call, self._name, right)
        return call, handler

    def _refused(self, error: TxManagerError) -> Reply:
        reply = problem_reply(error)
        if isinstance(error, WrongMethod):
            reply.headers.append((b"allow", self._allow))
        if reply.status == 500:
            self._common.log.error("request failed", route=self._name, code=error.code, error=str(error))
        return reply


_NOBODY = Caller(scopes=frozenset())
