"""Archives for tests: SQLite and a real PostgreSQL, each test with tables of its own."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.servers import Postgres, find_postgres
from txmanager.archive import Database

DATABASES = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    if find_postgres() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    server = Postgres()
    try:
        yield server.start()
    finally:
        server.close()


async def new_url(server: Postgres) -> str:
    """A database of its own on the server."""
    name = f"t{secrets.token_hex(6)}"
    connection = await asyncpg.connect(server.url)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return server.url.rpartition("/")[0] + f"/{name}"


@pytest.fixture(params=DATABASES)
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/archive.db"
    return await new_url(request.getfixturevalue("postgres"))


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    made = Database(url)
    await made.prepare()
    yield made
    await made.close()
