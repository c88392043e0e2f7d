"""History in SQL: SQLite by default, PostgreSQL by URL."""

from txmanager.archive.database import Database
from txmanager.archive.reading import SqlReader
from txmanager.archive.writing import SqlWriter

__all__ = ["Database", "SqlReader", "SqlWriter"]
