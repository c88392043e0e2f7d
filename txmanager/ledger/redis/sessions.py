"""Codes and sessions on Redis: two hashes per issuer, in a slot of their own."""

from __future__ import annotations

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
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend


class SessionDesk(Backend):
    async def offer_code(self, issuer: str, code: str, lasts_ms: int = CODE_MS, keep: int = CODES_LIMIT) -> None:
        check_digests(issuer, code)
        await self._runner.run("offer_code", [self._keys.codes(issuer)], (code, lasts_ms, keep))

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
        keys = [self._keys.codes(issuer), self._keys.sessions(issuer)]
        args = (code, session, lasts_ms, keep, shown_origin(origin))
        word, text = await self._runner.run("open_session", keys, args, durable=True)
        return _session(session, text) if word == b"opened" else None

    async def sessions(self, issuer: str) -> list[Session]:
        check_digests(issuer)
        key = self._keys.sessions(issuer)
        flat, now = await self._runner.plain(key, ("HGETALL", key), ("TIME",))
        found = [_session(id.decode(), text) for id, text in codec.pairs(flat).items() if id != b"at"]
        return newest_first(one for one in found if one.ends_at > _ms(now))

    async def session(self, issuer: str, id: str) -> Session | None:
        check_digests(issuer, id)
        key = self._keys.sessions(issuer)
        text, now = await self._runner.plain(key, ("HGET", key, id), ("TIME",))
        found = None if text is None else _session(id, text)
        return found if found is not None and found.ends_at > _ms(now) else None

    async def end_session(self, issuer: str, id: str) -> bool:
        check_digests(issuer, id)
        return bool(await self._runner.run("end_session", [self._keys.sessions(issuer)], (id,), durable=True))


def _session(id: str, text: bytes) -> Session:
    ends, opened, origin = text.decode().split(" ", 2)
    return Session(id, int(opened), int(ends), origin)


def _ms(time: list[bytes]) -> int:
    return int(time[0]) * 1000 + int(time[1]) // 1000
