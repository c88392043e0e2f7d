"""Run by Alembic: every step happens on the connection, and in the transaction, that `Database.prepare` opened."""

from __future__ import annotations

from alembic import context

from txmanager.archive.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
