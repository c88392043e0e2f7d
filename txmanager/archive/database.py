"""One connection pool to the archive, for SQLite and PostgreSQL alike. Foreign errors end here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from txmanager.core.errors import InvalidSettings, Unavailable

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
_MIGRATIONS = 7_236_911
"""The name of the lock that lets one process at a time change the tables of a PostgreSQL."""
_BUSY_MS = 10_000


def _url(setting: str) -> URL:
    try:
        url = make_url(setting)
    except ArgumentError:
        url = None
    if url is None or url.drivername not in _DRIVERS:
        raise InvalidSettings("archive.url", "must begin with sqlite:/// or postgresql://")
    if url.drivername == "sqlite" and not url.database:
        raise InvalidSettings("archive.url", "must name a file, such as sqlite:///data/archive.db")
    return url.set(drivername=_DRIVERS[url.drivername])


class Database:
    """Open with `prepare`, which makes or changes the tables; any number of processes may do so at once."""

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        self.url = _url(url)
        self.postgres = self.url.drivername.startswith("postgresql")
        options: dict[str, Any] = {"pool_pre_ping": True, "pool_timeout": timeout_s}
        if self.postgres:
            options["connect_args"] = {"timeout": timeout_s, "command_timeout": timeout_s}
        self._timeout_s = timeout_s
        self._engine = create_async_engine(self.url, **options)
        if not self.postgres:
            event.listen(self._engine.sync_engine, "connect", _sqlite_connection)
            event.listen(self._engine.sync_engine, "begin", _sqlite_begin)

    @property
    def insert(self) -> Any:
        """`INSERT` with `ON CONFLICT`, in the words of this database."""
        return postgresql.insert if self.postgres else sqlite.insert

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        async with self._guarded(), self._engine.connect() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """One transaction: all of it is there afterwards, or nothing."""
        async with self._guarded(), self._engine.connect() as connection:
            await connection.execution_options(txmanager_writes=True)
            async with connection.begin():
                yield connection

    @asynccontextmanager
    async def _guarded(self) -> AsyncIterator[None]:
        try:
            yield
        except (TimeoutError, SQLAlchemyError, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise Unavailable(f"the archive does not answer: {str(cause)[:300]}") from error

    async def prepare(self) -> None:
        if not self.postgres:
            try:
                Path(str(self.url.database)).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InvalidSettings("archive.url", f"cannot make its folder: {error.strerror}") from None
        async with self.writing() as connection:
            if self.postgres:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:name)"), {"name": _MIGRATIONS})
            await connection.run_sync(migrate)

    async def close(self) -> None:
        await self._engine.dispose()


def migrate(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _sqlite_connection(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so, not where the driver guesses
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={_BUSY_MS}", "cache_size=-65536"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    # A writer takes its lock at once: one that begins as a reader may be refused halfway.
    writes = connection.get_execution_options().get("txmanager_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
