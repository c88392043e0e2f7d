"""Codes and sessions of one process."""

from __future__ import annotations

from txmanager.core.sessions import Session, newest_first


class SessionStore:
    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {}
        self._open: dict[str, dict[str, Session]] = {}

    def offer(self, issuer: str, code: str, lasts_ms: int, keep: int, now: int) -> None:
        codes = self._codes.setdefault(issuer, {})
        for oldest in sorted(codes, key=lambda one: codes[one])[: max(0, len(codes) - keep + 1)]:
            del codes[oldest]
        codes[code] = now + lasts_ms

    def open(
        self, issuer: str, code: str, session: str, origin: str, lasts_ms: int, keep: int, now: int
    ) -> Session | None:
        opened = self._open.setdefault(issuer, {})
        if session in opened:
            return opened[session]
        if self._codes.get(issuer, {}).pop(code, 0) <= now:
            return None
        for oldest in sorted(opened, key=lambda one: opened[one].ends_at)[: max(0, len(opened) - keep + 1)]:
            del opened[oldest]
        opened[session] = Session(session, now, now + lasts_ms, origin)
        return opened[session]

    def list(self, issuer: str, now: int) -> list[Session]:
        return newest_first(one for one in self._open.get(issuer, {}).values() if one.ends_at > now)

    def end(self, issuer: str, id: str) -> bool:
        return self._open.get(issuer, {}).pop(id, None) is not None
