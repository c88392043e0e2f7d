"""Storing what ended: the row, what it is found by, its document and the day's sums, in one transaction.

A kill before the commit leaves nothing; after it everything. The rows of a repeat conflict, and change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, delete, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from txmanager.archive import rows
from txmanager.archive.database import Database
from txmanager.archive.tables import audit, documents, intents, tags, tenants, usage
from txmanager.core.archive import Ended, Spending
from txmanager.core.audit import AuditEntry
from txmanager.core.models import IntentId
from txmanager.core.positions import place
from txmanager.core.states import Status

_FORGET = 5_000
"""Rows that go in one transaction: the archiver stores between two of them."""
_KEY = ("day", "tenant", "token", "pool", "kind", "network", "spending")
_COUNTED = {Status.DONE: "done", Status.FAILED: "failed", Status.CANCELLED: "cancelled"}


class SqlWriter:
    def __init__(self, database: Database, indexed: Collection[str] = ()) -> None:
        self._database = database
        self._indexed = sorted(indexed)

    async def store(self, ended: Sequence[Ended]) -> list[IntentId]:
        # In one order, so that two archivers never wait for each other.
        by_name = {_name(one): rows.storable(one) for one in sorted(ended, key=_name)}
        if not by_name:
            return []
        async with self._database.writing() as connection:
            new = await self._insert_intents(connection, list(by_name.values()))
            stored = [(seq, by_name[name]) for name, seq in new.items()]
            if stored:
                await connection.execute(
                    documents.insert(), [{"seq": seq, **rows.document_row(one)} for seq, one in stored]
                )
                found = [row for seq, one in stored for row in self._tags(seq, one)]
                if found:
                    await connection.execute(self._database.insert(tags).on_conflict_do_nothing(), found)
                await self._add_usage(connection, [one for _, one in stored])
            known = [one for name, one in by_name.items() if name not in new]
            return await self._differing(connection, known) if known else []

    async def _insert_intents(self, connection: AsyncConnection, ended: Sequence[Ended]) -> dict[_Name, int]:
        """The numbers of those that were not there."""
        values = [rows.intent_row(one) for one in ended]
        names = [{"tenant": name} for name in sorted({row["tenant"] for row in values})]
        insert = self._database.insert
        await connection.execute(insert(tenants).on_conflict_do_nothing(), names)
        c = intents.c
        statement = insert(intents).values(values).on_conflict_do_nothing()
        answer = await connection.execute(statement.returning(c.seq, c.tenant, c.pool, c.key, c.life))
        return {(row.tenant, row.pool, row.key, row.life): row.seq for row in answer}

    def _tags(self, seq: int, ended: Ended) -> list[dict[str, Any]]:
        row = rows.intent_row(ended)
        shared = {"seq": seq, **{name: row[name] for name in ("tenant", "accepted_at", "life")}}
        pairs = dict.fromkeys(rows.tag_rows(ended, self._indexed))
        return [{**shared, "name": name, "value": value} for name, value in pairs]

    async def _differing(self, connection: AsyncConnection, known: Sequence[Ended]) -> list[IntentId]:
        c = intents.c
        wanted = tuple_(c.tenant, c.pool, c.key, c.life).in_([_name(one) for one in known])
        answer = await connection.execute(select(c.tenant, c.pool, c.key, c.life, c.outcome).where(wanted))
        stored = {(row.tenant, row.pool, row.key, row.life): row.outcome for row in answer}
        return [one.record.id for one in known if stored.get(_name(one)) != rows.outcome_digest(one.record)]

    async def _add_usage(self, connection: AsyncConnection, ended: Sequence[Ended]) -> None:
        sums: dict[tuple[str, ...], _Sum] = {}

        def line(one: Ended, spending: Spending) -> _Sum:
            key = rows.usage_key(one, spending)
            return sums.setdefault(tuple(key[name] for name in _KEY), _Sum())

        for one in ended:
            line(one, one.spending).add(one)
            if (noops := _noop_cost(one)) > 0:
                line(one, Spending.NOOP).add_noops(noops)
        for key_values in sorted(sums):
            key = dict(zip(_KEY, key_values, strict=True))
            nothing = {"done": 0, "failed": 0, "cancelled": 0, "cost": "0", "deposits": "0", "unknown": 0}
            await connection.execute(self._database.insert(usage).values(**key, **nothing).on_conflict_do_nothing())
            place = and_(*(usage.c[name] == value for name, value in key.items()))
            [stored] = await connection.execute(select(usage).where(place).with_for_update())
            await connection.execute(update(usage).where(place).values(**sums[key_values].added_to(stored._asdict())))

    async def store_audit(self, entries: Sequence[AuditEntry]) -> None:
        if not entries:
            return
        values = [
            {name: getattr(entry, name).replace("\0", "") for name in ("id", "tenant", "refused", "who", "what", "on")}
            | dict(zip(("ms", "n"), place(entry.id), strict=True))
            | {"at": entry.at, "origin": entry.origin, "told": entry.told.replace("\0", "")}
            for entry in entries
        ]
        async with self._database.writing() as connection:
            await connection.execute(self._database.insert(audit).on_conflict_do_nothing(), values)

    async def forget(self, before: int) -> int:
        gone = 0
        while True:
            async with self._database.writing() as connection:
                oldest = select(intents.c.seq).where(intents.c.ended_at < before)
                answer = await connection.execute(oldest.order_by(intents.c.ended_at).limit(_FORGET))
                numbers = [row.seq for row in answer]
                for table in (tags, documents, intents):
                    if numbers:
                        await connection.execute(delete(table).where(table.c.seq.in_(numbers)))
            gone += len(numbers)
            if len(numbers) < _FORGET:
                return gone

    async def close(self) -> None:
        await self._database.close()


_Name = tuple[str, str, str, str]


def _name(ended: Ended) -> _Name:
    id = ended.record.id
    return id.tenant, id.pool, id.key, ended.record.life


def _noop_cost(ended: Ended) -> int:
    outcome = ended.record.outcome
    return 0 if outcome is None or outcome.cost is None else outcome.noop_cost


@dataclass
class _Sum:
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    cost: int = 0
    deposits: int = 0
    unknown: int = 0

    def add(self, ended: Ended) -> None:
        record = ended.record
        assert record.outcome is not None
        name = _COUNTED[record.status]
        setattr(self, name, getattr(self, name) + 1)
        self.deposits += ended.deposit
        if record.outcome.cost is not None:
            self.cost += record.outcome.cost - record.outcome.noop_cost
        elif record.attempts:
            self.unknown += 1

    def add_noops(self, cost: int) -> None:
        self.done += 1
        self.cost += cost

    def added_to(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "done": stored["done"] + self.done,
            "failed": stored["failed"] + self.failed,
            "cancelled": stored["cancelled"] + self.cancelled,
            "cost": str(int(stored["cost"]) + self.cost),
            "deposits": str(int(stored["deposits"]) + self.deposits),
            "unknown": stored["unknown"] + self.unknown,
        }
