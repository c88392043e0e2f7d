"""What the records say of budgets whose history is in doubt; the same for every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field

from txmanager.core.budgets import (
    BUCKETS,
    DAY_MS,
    MOST_UNITS,
    OpenCharge,
    charge_of,
    corrections,
    oldest_bucket,
    slot_of,
)
from txmanager.core.models import Record


@dataclass(slots=True)
class Restored:
    per_ms: int
    spent: dict[int, int] = field(default_factory=dict)
    open: list[OpenCharge] = field(default_factory=list)

    @property
    def bucket_ms(self) -> int:
        return self.per_ms // BUCKETS or DAY_MS


async def restored(records: AsyncIterator[Record], slots: Collection[int], now: int) -> dict[str, Restored]:
    """By budget: open charges of what has not ended, costs of what ended within its span. A record may come twice, from
    its lane and from its home: one life counts once."""
    books: dict[str, Restored] = {}
    seen: set[str] = set()
    async for record in records:
        noted = charge_of(record.intent)
        if noted is None or record.life in seen:
            continue
        seen.add(record.life)
        for name, per_ms in noted.budgets:
            if slot_of(name) not in slots:
                continue
            book = books.setdefault(name, Restored(per_ms))
            if not record.status.final:
                book.open.append(OpenCharge(name, record.life, noted.units, 1, record.created_at, record.id))
                continue
            [cost] = [c.units for c in corrections(record) if c.budget == name]
            bucket = record.updated_at // book.bucket_ms
            if cost and bucket >= oldest_bucket(per_ms, book.bucket_ms, now):
                book.spent[bucket] = min(MOST_UNITS, book.spent.get(bucket, 0) + cost)
    return books
