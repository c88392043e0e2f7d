"""What an archive promises: what ended is kept once, never changed, and found again.

A row is known by tenant, pool, key and life; storing it twice changes nothing. Whoever stores may be killed at any
point and starts over. A row whose outcome differs from the stored one is not stored, and is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from txmanager.core.audit import AuditEntry
from txmanager.core.kinds import FILL, TOP_UP_KEY
from txmanager.core.listing import Filter, Mark, Page
from txmanager.core.models import IntentId, Record
from txmanager.core.values import value


class Spending(StrEnum):
    """What a row spent money on. All of them together are what a balance lost."""

    INTENT = "intent"
    TOP_UP = "top_up"
    """A payment to a lane of ours that ran low."""
    KEY_ACTION = "key_action"
    """A change of the pool's own account: its keys, its code."""
    NOOP = "noop"
    """What ended an intent without an effect, or landed beside it."""
    GAP_FILL = "gap_fill"
    """What used up a nonce of no intent."""


@value(frozen=True, slots=True)
class Ended:
    """A final record as it is archived."""

    record: Record
    receivers: tuple[str, ...] = ()
    deposit: int = 0
    """What it paid to others, as its payload says; 0 unless it is done."""
    own_account: bool = False
    """Whether it acts on the pool's own account."""
    whole: bool = True
    """With its payload; False where only the outcome was left."""

    @property
    def spending(self) -> Spending:
        if self.record.id.key.startswith(TOP_UP_KEY):
            return Spending.TOP_UP
        if self.record.intent.kind == FILL:
            return Spending.GAP_FILL
        return Spending.KEY_ACTION if self.own_account else Spending.INTENT


class Group(StrEnum):
    """What usage can be summed up by."""

    TENANT = "tenant"
    TOKEN = "token"
    POOL = "pool"
    KIND = "kind"
    DAY = "day"


@value(frozen=True, slots=True)
class UsageQuery:
    """Which days, of whom, and what each line stands for."""

    by: tuple[Group, ...]
    tenant: str | None = None
    pools: frozenset[str] | None = None
    since: str = ""
    """The first day, as 2026-01-31; and the last one."""
    until: str = "9999-12-31"


@value(frozen=True, slots=True)
class UsageLine:
    """Sums of one group on one network. Amounts are exact, in the chain's smallest unit."""

    network: str
    """Whose money it is: amounts of two networks are never added."""
    spending: Spending
    group: Mapping[str, str]
    count: int
    done: int
    failed: int
    cancelled: int
    cost: int
    """All that left the lanes: fees and deposits."""
    deposits: int
    """What the intents that are done paid to others, as their payloads say."""
    unknown: int
    """Intents whose cost is not known: they are not part of the sums."""


class ArchiveWriter(Protocol):
    async def store(self, ended: Sequence[Ended]) -> list[IntentId]:
        """Keep these, all or none, once each; answers those whose stored outcome is another one."""
        ...

    async def store_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Keep entries of the audit, once each by their ids."""
        ...

    async def forget(self, before: int) -> int:
        """Delete what ended before this millisecond; the sums of usage stay. Answers how many went."""
        ...

    async def close(self) -> None: ...


class ArchiveReader(Protocol):
    async def page(self, wanted: Filter, before: Mark | None, limit: int) -> Page: ...

    async def read(self, id: IntentId, life: str) -> Record | None:
        """One use of a key, however long ago."""
        ...

    async def usage(self, wanted: UsageQuery) -> list[UsageLine]: ...

    async def audit(self, tenant: str, before: str, count: int) -> list[AuditEntry]:
        """Entries of one tenant, or of all with `*`, newest first, older than the id; "" begins with the newest."""
        ...

    async def close(self) -> None: ...
