"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", _TEXT, primary_key=True),
        sa.Column("tenant", _TEXT, primary_key=True),
        sa.Column("refused", _TEXT, primary_key=True),
        sa.Column("ms", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("who", _TEXT, nullable=False),
        sa.Column("what", _TEXT, nullable=False),
        sa.Column("on", _TEXT, nullable=False),
        sa.Column("origin", _TEXT, nullable=False),
        sa.Column("told", _TEXT, nullable=False),
    )
    op.create_index("audit_by_time", "audit", ["tenant", "ms", "n"])
    op.create_table(
        "documents",
        sa.Column("seq", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("record", _TEXT, nullable=False),
        sa.Column("payload", _TEXT),
    )
    op.create_table(
        "intents",
        sa.Column("seq", _ID, primary_key=True, autoincrement=True),
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("pool", _TEXT, nullable=False),
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("life", _TEXT, nullable=False),
        sa.Column("accepted_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("lane", _TEXT, nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("error", _TEXT),
        sa.Column("outcome", _TEXT, nullable=False),
        sa.UniqueConstraint("tenant", "pool", "key", "life", name="intents_once"),
    )
    op.create_index("intents_by_end", "intents", ["ended_at"])
    op.create_index("intents_by_error", "intents", ["tenant", "error", "accepted_at", "life"])
    op.create_index("intents_by_key", "intents", ["tenant", "key", "accepted_at", "life"])
    op.create_index("intents_by_kind", "intents", ["tenant", "kind", "accepted_at", "life"])
    op.create_index("intents_by_lane", "intents", ["tenant", "lane", "accepted_at", "life"])
    op.create_index("intents_by_pool", "intents", ["tenant", "pool", "accepted_at", "life"])
    op.create_index("intents_by_status", "intents", ["tenant", "status", "accepted_at", "life"])
    op.create_index("intents_by_time", "intents", ["tenant", "accepted_at", "life"])
    op.create_table(
        "tags",
        sa.Column("tenant", _TEXT, primary_key=True),
        sa.Column("name", _TEXT, primary_key=True),
        sa.Column("value", _TEXT, primary_key=True),
        sa.Column("accepted_at", sa.BigInteger(), primary_key=True),
        sa.Column("life", _TEXT, primary_key=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
    )
    op.create_index("tags_by_seq", "tags", ["seq"])
    op.create_table(
        "tenants",
        sa.Column("tenant", _TEXT, primary_key=True),
    )
    op.create_table(
        "usage",
        sa.Column("day", _TEXT, primary_key=True),
        sa.Column("tenant", _TEXT, primary_key=True),
        sa.Column("token", _TEXT, primary_key=True),
        sa.Column("pool", _TEXT, primary_key=True),
        sa.Column("kind", _TEXT, primary_key=True),
        sa.Column("network", _TEXT, primary_key=True),
        sa.Column("spending", _TEXT, primary_key=True),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("cancelled", sa.BigInteger(), nullable=False),
        sa.Column("cost", _TEXT, nullable=False),
        sa.Column("deposits", _TEXT, nullable=False),
        sa.Column("unknown", sa.BigInteger(), nullable=False),
    )
