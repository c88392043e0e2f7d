"""Logging in to the console: a token asks for a code, the code buys a session once, the session acts as its token.

A session has its issuer's tenant, scopes and limits as the configuration has them now: a token that is removed or
replaced takes its sessions with it. Codes and session tokens name their issuer, so that a guess for an issuer that does
not exist never reaches the ledger.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from txmanager.api.audit import Auditor
from txmanager.api.auth import Caller, Gate, bearer
from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.problems import Forbidden, Unauthorized
from txmanager.api.records import View
from txmanager.core.audit import AuditEntry
from txmanager.core.errors import NotAllowed, NotFound, TxManagerError, Unavailable
from txmanager.core.sessions import CODE_MS, Session, Sessions
from txmanager.runtime.deliver.events import instant

T = TypeVar("T")
CODE: Final = "txc_"
TOKEN: Final = "txs_"
_TOKEN_BYTES: Final = TOKEN.encode()
_OVER = "the session is over, or its token was removed or replaced; log in again with `txmanager console`"
_NO_CODE = "the code is unknown, was used, or is older than a minute; run `txmanager console` again"
_NOT_KEPT = (b"cache-control", b"no-store")


class CodeView(View):
    """A login code, for the fragment of a URL."""

    code: str
    lasts_s: int


class OpenRequest(BaseModel):
    """The code of a login."""

    model_config = ConfigDict(extra="forbid", strict=True)
    code: str = Field(max_length=200)


class OpenedView(View):
    """A session's token: it is shown once."""

    token: str
    ends_at: str = Field(json_schema_extra={"format": "date-time"})


class CallerView(View):
    """Who is calling, and what the token allows."""

    name: str
    tenant: str = Field(description="`*` is all tenants.")
    tenants: list[str] = Field(description="Those that this token can name in `?tenant=`.")
    scopes: list[str]
    whole: bool = Field(description="Whether it sees all tenants, and may steer lanes if it has the scope `operate`.")
    pools: list[str] | None = Field(description="The pools it is limited to; null is all of them.")
    session_ends_at: str | None = Field(json_schema_extra={"format": "date-time"})


class SessionView(View):
    """One login."""

    id: str
    name: str = Field(description="The token that it acts as.")
    opened_at: str = Field(json_schema_extra={"format": "date-time"})
    ends_at: str = Field(json_schema_extra={"format": "date-time"})
    origin: str
    own: bool = Field(description="Whether it is the session that asks.")


class SessionList(View):
    sessions: list[SessionView]


class Ended(View):
    ended: bool


class Door:
    """Admits configured tokens, and the sessions that they opened."""

    def __init__(self, gate: Gate, sessions: Sessions, timeout_s: float) -> None:
        self.gate = gate
        self.sessions = sessions
        self._timeout_s = timeout_s

    async def admit(self, headers: Mapping[bytes, bytes], address: str) -> Caller:
        token = bearer(headers)
        if not token.startswith(_TOKEN_BYTES):
            return self.gate.admit_token(token, address)
        text = token.decode("latin-1")
        issuer = self.gate.issuer(_issuer_in(text, TOKEN))
        if issuer is not None:
            session = await self.within(self.sessions.session(issuer.issuer, _digest(text)))
            if session is not None:
                return replace(issuer, session=session.id, session_ends_ms=session.ends_at)
        self.gate.refuse(address)
        raise Unauthorized(_OVER, field="Authorization")

    async def still(self, caller: Caller) -> bool:
        """Whether a session that was admitted a while ago is still open; a configured token always is."""
        return not caller.session or await self.within(self.sessions.session(caller.issuer, caller.session)) is not None

    async def within(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work
        except TimeoutError:
            raise Unavailable(f"the ledger did not answer within {self._timeout_s:g} s; try again") from None


class SessionRoutes:
    def __init__(self, door: Door, audit: Auditor) -> None:
        self._door = door
        self._audit = audit

    async def offer(self, call: Call) -> Reply:
        caller = call.caller
        if caller.session:
            raise Forbidden("a session opens no other session; use the token itself", field="Authorization")
        if not caller.issuer:
            raise NotAllowed("there are no [[api.tokens]], so the console needs no login")
        await self._audit.note(call, "/v1/sessions/codes", "read")
        code = f"{CODE}{caller.issuer}_{secrets.token_urlsafe(32)}"
        await self._door.within(self._door.sessions.offer_code(caller.issuer, _digest(code)))
        return _private({"code": code, "lasts_s": CODE_MS // 1000})

    async def open(self, call: Call) -> Reply:
        code = str(call.read(OpenRequest)["code"])
        client = call.scope.get("client")
        address = str(client[0]) if client else ""
        issuer = self._door.gate.issuer(_issuer_in(code, CODE))
        session, token = None, ""
        if issuer is not None:
            token = f"{TOKEN}{issuer.issuer}_{secrets.token_urlsafe(32)}"
            opening = self._door.sessions.open_session(issuer.issuer, _digest(code), _digest(token), address)
            session = await self._door.within(opening)
        if issuer is None or session is None:
            self._door.gate.refuse(address)
            raise Unauthorized(_NO_CODE, field="code")
        issuer = replace(issuer, session=session.id)
        try:
            what = f"opened session {session.id[:8]}"
            await self._audit.write(AuditEntry(issuer.shown, issuer.tenant, "POST /v1/sessions", what, address))
        except TxManagerError:
            await self._door.within(self._door.sessions.end_session(issuer.issuer, session.id))
            raise
        return _private({"token": token, "ends_at": instant(session.ends_at)}, 201)

    async def who(self, call: Call) -> Reply:
        caller = call.caller
        return json_reply(
            {
                "name": caller.name,
                "tenant": caller.tenant,
                "tenants": sorted(caller.tenants) if caller.whole else [caller.tenant],
                "scopes": sorted(caller.scopes),
                "whole": caller.whole,
                "pools": None if caller.limits.pools is None else sorted(caller.limits.pools),
                "session_ends_at": instant(caller.session_ends_ms) if caller.session else None,
            }
        )

    async def leave(self, call: Call) -> Reply:
        caller = call.caller
        if not caller.session:
            raise NotAllowed(
                "this is a configured token and no session; it ends when it is removed from [[api.tokens]]"
            )
        await self._audit.note(call, "/v1/session", "read")
        return await self._end(caller.issuer, caller.session)

    async def list(self, call: Call) -> Reply:
        found = [(issuer, session) for issuer in self._visible(call) for session in await self._of(issuer)]
        found.sort(key=lambda one: one[1].opened_at, reverse=True)
        return json_reply({"sessions": [_session_json(issuer, one, call.caller) for issuer, one in found]})

    async def end(self, call: Call) -> Reply:
        id = call.path("id")
        for issuer in self._visible(call):
            for session in await self._of(issuer):
                if session.id == id:
                    return await self._end(issuer.issuer, id)
        raise NotFound("there is no such session; it may be over")

    def _visible(self, call: Call) -> Sequence[Caller]:
        return [issuer for issuer in self._door.gate.issuers if call.caller.sees(issuer.tenant)]

    async def _of(self, issuer: Caller) -> Sequence[Session]:
        return await self._door.within(self._door.sessions.sessions(issuer.issuer))

    async def _end(self, issuer: str, id: str) -> Reply:
        return json_reply({"ended": await self._door.within(self._door.sessions.end_session(issuer, id))})


def _session_json(issuer: Caller, session: Session, caller: Caller) -> dict[str, Any]:
    return {
        "id": session.id,
        "name": issuer.name,
        "opened_at": instant(session.opened_at),
        "ends_at": instant(session.ends_at),
        "origin": session.origin,
        "own": session.id == caller.session,
    }


def _private(body: Mapping[str, Any], status: int = 200) -> Reply:
    reply = json_reply(body, status)
    reply.headers.append(_NOT_KEPT)
    return reply


def _issuer_in(text: str, prefix: str) -> str:
    return text.removeprefix(prefix).partition("_")[0] if text.startswith(prefix) else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
