"""Lists, single records and sums from the archive.

A page is read from one index, in its order: the rarest of what the filter names picks the index, the rest is compared
row by row. A page looks at `SCAN_LIMIT` rows at most, of all tenants together; when that was not enough it is partial.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, Table, and_, exists, false, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.elements import ColumnElement

from txmanager.archive import rows
from txmanager.archive.database import Database
from txmanager.archive.tables import audit, documents, intents, tags, tenants, usage
from txmanager.core.archive import Group, Spending, UsageLine, UsageQuery
from txmanager.core.audit import ALL_TENANTS, AuditEntry
from txmanager.core.errors import InvalidInput
from txmanager.core.listing import Filter, Mark, Page
from txmanager.core.models import IntentId, Record

SCAN_LIMIT = 4_000
"""Rows of all tenants that a page compares with what its index does not say: some 20 ms."""
_MOST_TENANTS = 200
"""A list over all tenants asks for each of them; beyond this the caller names one."""
_FEW = 1_000
"""So many keys of one prefix are found by the keys and sorted; more are met often enough in the order of time."""
_COLUMNS = (
    "seq", "tenant", "pool", "key", "life", "accepted_at", "ended_at", "lane", "kind", "status", "error",
)  # fmt: skip
_RAREST = ("lane", "error", "kind", "status", "pool")
"""Which of the columns of a filter picks the index: the one that fewest rows share, as a rule."""


@dataclass
class _Look:
    rows: list[Any]
    end: Mark | None
    """Nothing behind it was looked at."""
    partial: bool = False


@dataclass
class _Index:
    """Where the rows of a page come from, in the order of the list."""

    table: Table
    picked: list[ColumnElement[bool]]
    covers: frozenset[str]
    """What of the filter is true of every row of it."""

    @property
    def columns(self) -> list[Any]:
        return [self.table.c.accepted_at, self.table.c.life]

    def rows(self, columns: Sequence[Any], wanted: Filter, before: Mark | None) -> Select[Any]:
        c = self.table.c
        chosen = select(*columns).where(*self.picked, *_span(wanted, before, c))
        return chosen.order_by(c.accepted_at.desc(), c.life.desc())


def page_statement(
    wanted: Filter, index: _Index, rest: Sequence[ColumnElement[bool]], before: Mark | None, stop: Mark | None
) -> Select[Any]:
    """The rows of a page: one index from `before` down to `stop`, and the rest of the filter row by row."""
    statement = index.rows([intents.c[name] for name in _COLUMNS], wanted, before).where(*rest)
    if index.table is tags:
        statement = statement.select_from(tags.join(intents, intents.c.seq == tags.c.seq))
    if stop is not None:
        c = index.table.c
        statement = statement.where(c.accepted_at >= stop[0], or_(c.accepted_at > stop[0], c.life >= stop[1]))
    return statement


class SqlReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, wanted: Filter, before: Mark | None, limit: int) -> Page:
        if wanted.pools is not None and (wanted.pool not in (None, *wanted.pools) or not wanted.pools):
            return Page(())
        async with self._database.reading() as connection:
            named = [wanted.tenant] if wanted.tenant is not None else await _tenants(connection)
            far = max(limit + 1, SCAN_LIMIT // max(1, len(named)))
            looks = [await self._look(connection, wanted, tenant, before, limit, far) for tenant in named]
            ends = [look.end for look in looks if look.end is not None]
            horizon = max(ends, default=None)
            found = sorted((row for look in looks for row in look.rows), key=_mark, reverse=True)
            found = [row for row in found if horizon is None or _mark(row) >= horizon]
            shown = found[:limit]
            documented = await _with_documents(connection, [row.seq for row in shown])
        records = tuple(rows.read_record(documented[row.seq]) for row in shown if row.seq in documented)
        if len(found) > limit:
            return Page(records, _mark(shown[-1]))
        partial = any(look.partial and look.end == horizon for look in looks)
        return Page(records, horizon, partial=partial)

    async def _look(
        self, connection: AsyncConnection, wanted: Filter, tenant: str, before: Mark | None, limit: int, far: int
    ) -> _Look:
        """One tenant's part of a page: straight from an index, no further than its `far`th row."""
        few = await self._few_keys(connection, wanted, tenant)
        index = _index(wanted, tenant, few=few)
        rest = _rest(wanted, index)
        stop: Mark | None = None
        if rest and not few:
            last = index.rows(index.columns, wanted, before).offset(far - 1).limit(1)
            stop = next((_mark(row) for row in await connection.execute(last)), None)
        statement = page_statement(wanted, index, rest, before, stop).limit(limit + 1)
        found = list((await connection.execute(statement)).all())
        if len(found) > limit:
            return _Look(found[:limit], _mark(found[limit - 1]))
        return _Look(found, stop, partial=stop is not None)

    async def _few_keys(self, connection: AsyncConnection, wanted: Filter, tenant: str) -> bool:
        """Whether the prefix is better found by the keys than met in the order of time."""
        if not wanted.key_prefix or _tag_pairs(wanted):
            return False
        c = intents.c
        some = select(c.key).where(c.tenant == tenant, *_prefix(wanted.key_prefix, c.key)).limit(_FEW + 1).subquery()
        return (await connection.execute(select(func.count()).select_from(some))).scalar_one() <= _FEW

    # -- one record

    async def read(self, id: IntentId, life: str) -> Record | None:
        c = intents.c
        wanted = [c.tenant == id.tenant, c.pool == id.pool, c.key == id.key, c.life == life]
        joined = select(*(c[name] for name in _COLUMNS), documents.c.record, documents.c.payload)
        joined = joined.join(documents, documents.c.seq == c.seq).where(*wanted)
        async with self._database.reading() as connection:
            row = (await connection.execute(joined)).first()
        return None if row is None else rows.read_record(row)

    # -- sums

    async def usage(self, wanted: UsageQuery) -> list[UsageLine]:
        said = [usage.c.day >= wanted.since, usage.c.day <= wanted.until]
        if wanted.tenant is not None:
            said.append(usage.c.tenant == wanted.tenant)
        if wanted.pools is not None:
            said.append(usage.c.pool.in_(sorted(wanted.pools)) if wanted.pools else false())
        sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * 6)
        async with self._database.reading() as connection:
            for row in await connection.execute(select(usage).where(*said)):
                fields = row._mapping
                key = (fields["network"], fields["spending"], *(fields[group.value] for group in wanted.by))
                values = (row.done, row.failed, row.cancelled, int(row.cost), int(row.deposits), row.unknown)
                sums[key] = [have + more for have, more in zip(sums[key], values, strict=True)]
        return [_line(key, wanted.by, values) for key, values in sorted(sums.items())]

    # -- the audit

    async def audit(self, tenant: str, before: str, count: int) -> list[AuditEntry]:
        c = audit.c
        said: list[ColumnElement[bool]] = [] if tenant == ALL_TENANTS else [c.tenant == tenant]
        if before:
            ms, _, n = before.partition("-")
            if not (ms.isdecimal() and n.isdecimal() and len(ms) <= 15 and len(n) <= 15):
                raise InvalidInput("before", "is none of ours; send the id of an entry")
            said.append(or_(c.ms < int(ms), and_(c.ms == int(ms), c.n < int(n))))
        columns = [c[name] for name in ("who", "tenant", "what", "on", "origin", "told", "refused", "at", "id")]
        statement = select(*columns).where(*said).order_by(c.ms.desc(), c.n.desc()).limit(count)
        async with self._database.reading() as connection:
            return [AuditEntry(*row) for row in await connection.execute(statement)]

    async def close(self) -> None:
        await self._database.close()


def _index(wanted: Filter, tenant: str, *, few: bool) -> _Index:
    c, t = intents.c, tags.c
    if pairs := _tag_pairs(wanted):
        name, value = pairs[0]
        return _Index(tags, [t.tenant == tenant, t.name == name, t.value == value], frozenset({name}))
    if few:
        return _Index(intents, [c.tenant == tenant, *_prefix(wanted.key_prefix, c.key)], frozenset({"key_prefix"}))
    rarest = next((name for name in _RAREST if getattr(wanted, name) is not None), None)
    if rarest is None:
        return _Index(intents, [c.tenant == tenant], frozenset())
    return _Index(intents, [c.tenant == tenant, c[rarest] == str(getattr(wanted, rarest))], frozenset({rarest}))


def _rest(wanted: Filter, index: _Index) -> list[ColumnElement[bool]]:
    """What of the filter the index does not say. Compared in a form that no other index has: a planner that leaves the
    picked one reads a large part of the table, and sorts it."""
    c, said = intents.c, list[ColumnElement[bool]]()
    for name in _RAREST:
        value = getattr(wanted, name)
        if value is not None and name not in index.covers:
            said.append(c[name].concat("") == str(value))
    if wanted.pools is not None and wanted.pool is None:
        said.append(c.pool.concat("").in_(sorted(wanted.pools)))
    if wanted.key_prefix and "key_prefix" not in index.covers:
        said += _prefix(wanted.key_prefix, c.key.concat(""))
    for name, value in _tag_pairs(wanted):
        if name not in index.covers:
            t = tags.alias().c
            of_row = [t.tenant == c.tenant, t.accepted_at == c.accepted_at, t.life == c.life]
            said.append(exists().where(t.name == name, t.value == value, *of_row))
    return said


def _line(key: tuple[str, ...], by: Sequence[Group], values: Sequence[int]) -> UsageLine:
    network, spending, *groups = key
    done, failed, cancelled, cost, deposits, unknown = values
    group = dict(zip((one.value for one in by), groups, strict=True))
    count = done + failed + cancelled
    return UsageLine(network, Spending(spending), group, count, done, failed, cancelled, cost, deposits, unknown)


async def _tenants(connection: AsyncConnection) -> list[str]:
    answer = await connection.execute(select(tenants.c.tenant).order_by(tenants.c.tenant).limit(_MOST_TENANTS + 1))
    found = [row.tenant for row in answer]
    if len(found) > _MOST_TENANTS:
        raise InvalidInput("tenant", f"is required: there are more than {_MOST_TENANTS}")
    return found


async def _with_documents(connection: AsyncConnection, numbers: Sequence[int]) -> dict[int, Any]:
    if not numbers:
        return {}
    columns = [*(intents.c[name] for name in _COLUMNS), documents.c.record, documents.c.payload]
    joined = select(*columns).join(documents, documents.c.seq == intents.c.seq).where(intents.c.seq.in_(numbers))
    return {row.seq: row for row in await connection.execute(joined)}


def _mark(row: Any) -> Mark:
    return row.accepted_at, row.life


def _tag_pairs(wanted: Filter) -> list[tuple[str, str]]:
    pairs = [(rows.METADATA + name, value) for name, value in sorted(wanted.metadata.items())]
    for name, value in ((rows.RECEIVER, wanted.receiver), (rows.HASH, wanted.hash)):
        if value is not None:
            pairs.insert(0, (name, value))
    return pairs


def _span(wanted: Filter, before: Mark | None, c: Any) -> list[ColumnElement[bool]]:
    said: list[ColumnElement[bool]] = []
    if before is not None:
        # The first half is what an index can begin at.
        said += [c.accepted_at <= before[0], or_(c.accepted_at < before[0], c.life < before[1])]
    if wanted.since is not None:
        said.append(c.accepted_at >= wanted.since)
    if wanted.until is not None:
        said.append(c.accepted_at < wanted.until)
    return said


def _prefix(prefix: str, column: Any) -> list[ColumnElement[bool]]:
    """Keys are visible ASCII, so the end of a prefix is its last letter's successor."""
    return [column >= prefix, column < prefix[:-1] + chr(ord(prefix[-1]) + 1)]
