"""The tables. `migrations/` makes them; a test compares both.

Money is text: a database's numbers are too small, or round (SQLite keeps 15 digits of a NUMERIC). What is searched by
stands in `intents` and `tags`, which are small; records and payloads stand in `documents`, which are not.

Every index ends in (accepted_at, life), the order of every list: a page is read from one place of one index.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, UniqueConstraint
from sqlalchemy import Text as AnyText
from sqlalchemy.dialects.postgresql import TEXT

metadata = MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only where the type is INTEGER."""
Text = AnyText().with_variant(TEXT(collation="C"), "postgresql")
"""Compared byte by byte, as Python and SQLite do: an order that depends on a server's language is none."""

intents = Table(
    "intents",
    metadata,
    Column("seq", _Id, primary_key=True, autoincrement=True),
    Column("tenant", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("life", Text, nullable=False),
    Column("accepted_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("lane", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error", Text),
    Column("outcome", Text, nullable=False),
    UniqueConstraint("tenant", "pool", "key", "life", name="intents_once"),
)
"""`outcome` is a digest of what must never change."""

FILTERED = ("pool", "status", "kind", "lane", "error")
Index("intents_by_time", intents.c.tenant, intents.c.accepted_at, intents.c.life)
for _name in FILTERED:
    Index(f"intents_by_{_name}", intents.c.tenant, intents.c[_name], intents.c.accepted_at, intents.c.life)
Index("intents_by_key", intents.c.tenant, intents.c.key, intents.c.accepted_at, intents.c.life)
Index("intents_by_end", intents.c.ended_at)

tags = Table(
    "tags",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    Column("accepted_at", BigInteger, primary_key=True),
    Column("life", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Index("tags_by_seq", "seq"),
)
"""What one intent has several of: `hash`, `receiver`, and the indexed names of its metadata as `metadata.NAME`."""

documents = Table(
    "documents",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("record", Text, nullable=False),
    Column("payload", Text),
)

usage = Table(
    "usage",
    metadata,
    Column("day", Text, primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("token", Text, primary_key=True),
    Column("pool", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("network", Text, primary_key=True),
    Column("spending", Text, primary_key=True),
    Column("done", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("cancelled", BigInteger, nullable=False),
    Column("cost", Text, nullable=False),
    Column("deposits", Text, nullable=False),
    Column("unknown", BigInteger, nullable=False),
)
"""One row for each day and everything that usage is summed up by, written with the intents it counts."""

audit = Table(
    "audit",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("refused", Text, primary_key=True),
    Column("ms", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("on", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("told", Text, nullable=False),
    Index("audit_by_time", "tenant", "ms", "n"),
)
"""`ms` and `n` are the two halves of the id, which is their order."""

tenants = Table("tenants", metadata, Column("tenant", Text, primary_key=True))
"""Who has rows: a list over all tenants asks for each of them."""
