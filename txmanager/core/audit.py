"""Who asked for what, when and from where: written before an operator's verb acts, refused calls included.

Each tenant has a list of its own for what was allowed and one for what was refused, so that nobody's refused calls
push out somebody else's entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from txmanager.core.models import check_name
from txmanager.core.values import value

AUDIT_LIMIT = 10_000
"""Entries that are kept per tenant, allowed and refused each; beyond it the oldest go."""
ALL_TENANTS = "*"
_LONGEST = 500


@value(frozen=True, slots=True)
class AuditEntry:
    """One call. `at` and `id` are the ledger's."""

    who: str
    """The token's name, or user@host at the command line."""
    tenant: str
    """Whose matter it is; `*` is everybody's."""
    what: str
    """The verb: a method and a path, or a command."""
    on: str = ""
    """What it acts on: a lane, an intent."""
    origin: str = ""
    """The caller's address; `cli` for a command."""
    told: str = ""
    """What the caller said with it (query, body), shortened."""
    refused: str = ""
    """The error's code when the call was refused; empty when it went on to act."""
    at: int = 0
    id: str = ""


class Audits(Protocol):
    async def note(self, entry: AuditEntry, keep: int = AUDIT_LIMIT) -> AuditEntry:
        """Write an entry durably and forget all but the newest `keep` of its list; whoever cannot must not act. A
        repeat may leave it twice."""
        ...

    async def audit(self, tenant: str = ALL_TENANTS, count: int = 100) -> list[AuditEntry]:
        """The newest entries of one tenant, or of all; newest first."""
        ...


def shortened(entry: AuditEntry) -> tuple[str, str, str, str, str, str, str]:
    """Its texts as they are stored, in the order of the fields: callers choose some of them, so all have a bound."""
    if entry.tenant != ALL_TENANTS:
        check_name("tenant", entry.tenant)
    texts = (entry.who, entry.tenant, entry.what, entry.on, entry.origin, entry.told, entry.refused)
    who, tenant, what, on, origin, told, refused = (text[:_LONGEST] for text in texts)
    return who, tenant, what, on, origin, told, refused


def newest(entries: Sequence[AuditEntry], count: int) -> list[AuditEntry]:
    return sorted(entries, key=_order, reverse=True)[:count]


def _order(entry: AuditEntry) -> tuple[int, int]:
    ms, _, sequence = entry.id.partition("-")
    return int(ms), int(sequence or 0)
