"""Codes and sessions on Durable Objects, an object for some of the issuers."""

from __future__ import annotations

import zlib

from txmanager.core.sessions import (
    CODE_MS,
    CODES_LIMIT,
    SESSION_MS,
    SESSIONS_LIMIT,
    Session,
    check_digests,
    newest_first,
    shown_origin,
)
from txmanager.ledger.durable import codec
from txmanager.ledger.durable.backend import Backend

_DESKS = 16


class SessionDesk(Backend):
    async def offer_code(self, issuer: str, code: str, lasts_ms: int = CODE_MS, keep: int = CODES_LIMIT) -> None:
        check_digests(issuer, code)
        await self._shared(_desk(issuer), "offer_code", issuer=issuer, id=code, lasts_ms=lasts_ms, keep=keep)

    async def open_session(
        self,
        issuer: str,
        code: str,
        session: str,
        origin: str = "",
        lasts_ms: int = SESSION_MS,
        keep: int = SESSIONS_LIMIT,
    ) -> Session | None:
        check_digests(issuer, code, session)
        about = {"issuer": issuer, "code": code, "id": session, "origin": shown_origin(origin)}
        row = await self._shared(_desk(issuer), "open_session", **about, lasts_ms=lasts_ms, keep=keep)
        return None if row is None else _session(row)

    async def sessions(self, issuer: str) -> list[Session]:
        check_digests(issuer)
        return newest_first(map(_session, await self._shared(_desk(issuer), "sessions", issuer=issuer, id=None)))

    async def session(self, issuer: str, id: str) -> Session | None:
        check_digests(issuer, id)
        rows = await self._shared(_desk(issuer), "sessions", issuer=issuer, id=id)
        return _session(rows[0]) if rows else None

    async def end_session(self, issuer: str, id: str) -> bool:
        check_digests(issuer, id)
        return bool(await self._shared(_desk(issuer), "end_session", issuer=issuer, id=id))


def _desk(issuer: str) -> str:
    return f"sessions-{zlib.crc32(issuer.encode()) % _DESKS}"


def _session(row: codec.Row) -> Session:
    return Session(row["id"], row["opened"], row["ends"], row["origin"])
