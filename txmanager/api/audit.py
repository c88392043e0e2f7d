"""The audit: each call that needs `operate` is written down before it acts, in the log and in the ledger.

A call whose entry cannot be written is refused. Refused calls are written, too; a call without a known token is only
logged, or strangers could fill the ledger. Reading is logged and not written: it changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog
from pydantic import Field

from txmanager.api.auth import Right
from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.records import View
from txmanager.core.audit import ALL_TENANTS, AUDIT_LIMIT, AuditEntry, Audits
from txmanager.core.errors import InvalidInput, Unavailable
from txmanager.runtime.deliver.events import instant

_SHOWN = 100
_LONGEST = 200


class AuditView(View):
    """One call of an operator."""

    id: str
    at: str = Field(json_schema_extra={"format": "date-time"})
    who: str = Field(description="The token's name, or user@host of a command.")
    tenant: str = Field(description="Whose matter it was; `*` is everybody's.")
    what: str = Field(examples=["POST /v1/lanes/{lane}/pause"])
    on: str = Field(description="The lane, the intent or the dead letter.")
    origin: str = Field(description="The caller's address, or `cli`.")
    told: str = Field(description="What came with the call, shortened.")
    refused: str = Field(description="The error's code if the call was refused before it acted; else empty.")


class AuditList(View):
    audit: list[AuditView]


def audit_json(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": instant(entry.at),
        "who": entry.who,
        "tenant": entry.tenant,
        "what": entry.what,
        "on": entry.on,
        "origin": entry.origin,
        "told": entry.told,
        "refused": entry.refused,
    }


class Auditor:
    def __init__(self, audits: Audits, timeout_s: float) -> None:
        self._audits = audits
        self._timeout_s = timeout_s
        self._log = structlog.get_logger("audit")

    async def note(self, call: Call, route: str, right: Right, refused: str = "") -> None:
        """Before the call acts, or as it is refused."""
        caller, method = call.caller, str(call.scope["method"])
        if right == "cancel" and not caller.operates and not refused:
            return  # its own intent: no operator's call
        client = call.scope.get("client")
        entry = AuditEntry(
            who=caller.shown,
            tenant=_tenant(call, right),
            what=f"{method} {route}",
            on=" ".join(call.path(name) for name in call.scope.get("path_params", {})),
            origin=str(client[0]) if client else "",
            told=_request_text(call),
            refused=refused,
        )
        shown = {name: text for name, text in audit_json(entry).items() if name not in ("id", "at") and text}
        self._log.info("operator call", **shown)
        if method != "GET" or refused:
            await self.write(entry)

    async def write(self, entry: AuditEntry) -> None:
        """Into the ledger; whoever cannot must not act."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._audits.note(entry)
        except TimeoutError:
            raise Unavailable("the call could not be written to the audit, so nothing was done") from None

    async def list(self, call: Call) -> Reply:
        text = call.query.get("count", str(_SHOWN))
        if not text.isdecimal() or not 1 <= int(text[:9]) <= AUDIT_LIMIT:
            raise InvalidInput("count", f"must be a whole number from 1 to {AUDIT_LIMIT}")
        caller, named = call.caller, call.query.get("tenant")
        tenant = ALL_TENANTS if caller.whole and named is None else caller.tenant_for(named)
        try:
            async with asyncio.timeout(self._timeout_s):
                entries = await self._audits.audit(tenant, int(text))
        except TimeoutError:
            raise Unavailable("the ledger did not answer in time") from None
        return json_reply({"audit": [audit_json(entry) for entry in entries]})


def _tenant(call: Call, right: Right) -> str:
    """Whose matter it is; what cannot be read from the request is everybody's."""
    caller, named = call.caller, call.query.get("tenant")
    if caller.tenant != ALL_TENANTS:
        return caller.tenant
    if right == "steer":
        return ALL_TENANTS
    try:
        return caller.tenant_for(named)
    except InvalidInput:
        return ALL_TENANTS


def _request_text(call: Call) -> str:
    """What came with it, shortened."""
    query = call.scope["query_string"][:_LONGEST].decode("latin-1")
    body = call.body[:_LONGEST].decode("utf-8", "replace")
    return " ".join(part for part in (query, body) if part)
