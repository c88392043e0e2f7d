"""Lists of intents: what is asked for, in which order, and where a page ends.

Intents are listed newest first by their mark: the millisecond of acceptance, then the life. Neither ever changes (an
intent that is sealed anew is accepted anew), so a page can go on where the last one ended, whatever happened between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import TypeAlias

from txmanager.core.models import Record
from txmanager.core.positions import place
from txmanager.core.states import Status
from txmanager.core.values import value

SCAN_LIMIT = 10_000
"""How many entries one page looks at; a page that found no more by then is partial."""
PAGE_LIMIT = 500

Mark: TypeAlias = tuple[int, str]
Receivers: TypeAlias = Callable[[Record], Collection[str]]
"""Whom the payload of a record acts on; nobody when it cannot be read."""


def mark_of(record: Record) -> Mark:
    """Its place in every list."""
    return place(record.position)[0], record.life


@value(frozen=True, slots=True)
class Filter:
    """What a list shows; whatever is None or empty shows all."""

    tenant: str | None = None
    pools: frozenset[str] | None = None
    """The pools that the caller may see."""
    pool: str | None = None
    status: Status | None = None
    kind: str | None = None
    lane: str | None = None
    key_prefix: str = ""
    hash: str | None = None
    receiver: str | None = None
    error: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    since: int | None = None
    """Accepted at this millisecond or later."""
    until: int | None = None
    """Accepted before this millisecond."""

    def sees(self, record: Record, receivers: Receivers) -> bool:
        """The cheap questions first: a live list asks them of every entry."""
        id, accepted = record.id, place(record.position)[0]
        return (
            self.tenant in (None, id.tenant)
            and self.sees_pool(id.pool)
            and self.status in (None, record.status)
            and self.kind in (None, record.intent.kind)
            and self.lane in (None, record.lane)
            and id.key.startswith(self.key_prefix)
            and (self.since is None or accepted >= self.since)
            and (self.until is None or accepted < self.until)
            and self.error in (None, error_code(record))
            and (self.hash is None or any(attempt.hash == self.hash for attempt in record.attempts))
            and all(metadata_text(record, name) == text for name, text in self.metadata.items())
            and (self.receiver is None or self.receiver in receivers(record))
        )

    def sees_pool(self, pool: str) -> bool:
        return self.pool in (None, pool) and (self.pools is None or pool in self.pools)


def error_code(record: Record) -> str | None:
    """The code of a failure; the reason of a hold."""
    if record.outcome is not None:
        return str(record.outcome.error["code"]) if record.outcome.error else None
    return str(record.hold["reason"]) if record.status is Status.HELD and record.hold else None


def metadata_text(record: Record, name: str) -> str | None:
    """One value of the metadata as a filter names it; None for what is no text, number or truth value."""
    found = record.intent.metadata.get(name)
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found) if isinstance(found, str | int | float) else None


@value(frozen=True, slots=True)
class Browsed:
    """Records of one lane, newest first. `next` is where older ones begin; None when there are none."""

    records: tuple[Record, ...]
    next: Mark | None = None


@value(frozen=True, slots=True)
class Page:
    """One page. `next` is where the following one begins; None at the end."""

    records: tuple[Record, ...]
    next: Mark | None = None
    partial: bool = False
    """It ended because it had looked at enough, not because it was full."""
