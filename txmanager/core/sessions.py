"""Sessions of people: a code that works once buys a session, and both end by themselves.

The ledger knows codes and session tokens by their SHA-256 alone. Each issuer (a configured API token) has a list of its
own, so that nobody's logins push out somebody else's session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from txmanager.core.errors import InvalidInput
from txmanager.core.values import value

CODE_MS = 60_000
SESSION_MS = 12 * 3600 * 1000
CODES_LIMIT, SESSIONS_LIMIT = 64, 256
"""Kept per issuer; beyond it the one that ends first goes."""
_DIGEST = re.compile(r"[0-9a-f]{16,64}\Z")
_LONGEST = 100


@value(frozen=True, slots=True)
class Session:
    id: str
    """The SHA-256 of its token."""
    opened_at: int
    ends_at: int
    origin: str = ""
    """The address that opened it."""


class Sessions(Protocol):
    async def offer_code(self, issuer: str, code: str, lasts_ms: int = CODE_MS, keep: int = CODES_LIMIT) -> None:
        """Leave a code that buys one session of this issuer."""
        ...

    async def open_session(
        self,
        issuer: str,
        code: str,
        session: str,
        origin: str = "",
        lasts_ms: int = SESSION_MS,
        keep: int = SESSIONS_LIMIT,
    ) -> Session | None:
        """Use up a code and open a session, in one step and durably: a code that was used stays used. None when the
        code is unknown, used or too old. A repeat with the same session answers the same one."""
        ...

    async def sessions(self, issuer: str) -> list[Session]:
        """Those that are open, newest first."""
        ...

    async def session(self, issuer: str, id: str) -> Session | None:
        """One that is open."""
        ...

    async def end_session(self, issuer: str, id: str) -> bool:
        """End it durably; False when there is none (any more)."""
        ...


def check_digests(issuer: str, *digests: str) -> None:
    """Whatever else came from a caller must not become a part of a name."""
    for digest in (issuer, *digests):
        if not _DIGEST.match(digest):
            raise InvalidInput("session", "must be a hexadecimal digest")


def shown_origin(origin: str) -> str:
    return origin[:_LONGEST]


def newest_first(sessions: Iterable[Session]) -> list[Session]:
    return sorted(sessions, key=lambda session: (session.opened_at, session.id), reverse=True)
