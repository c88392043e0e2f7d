"""What `txmanager keys` spends is part of the books: each transaction is a row of its own in the archive."""

from __future__ import annotations

import time
from dataclasses import replace

import typer

from txmanager.core.archive import Ended
from txmanager.core.errors import TxManagerError
from txmanager.core.kinds import KEYS_KEY
from txmanager.core.models import Attempt, Intent, IntentId, Outcome, Record
from txmanager.settings import Settings
from txmanager.settings.family import Clerk


class Books(Clerk):
    """Stores a transaction once it is final. A command that is killed before that leaves no row: its fee is then the
    difference between the books and the balance."""

    def __init__(self, settings: Settings, pool: str) -> None:
        self._settings = settings
        self._pool = pool

    def say(self, line: str) -> None:
        typer.echo(line)

    async def book(self, lane: str, intent: Intent, attempt: Attempt, outcome: Outcome) -> None:
        from txmanager.wiring import open_archive_writer

        if self._settings.archive is None:
            return
        now = int(time.time() * 1000)
        named = replace(intent, id=IntentId(self._pool, KEYS_KEY + attempt.hash))
        life, position = attempt.hash[:32], f"{now}-0"
        record = Record(named, lane, life, outcome.status, position, now, now, attempts=(attempt,), outcome=outcome)
        try:
            archive = await open_archive_writer(self._settings.archive)
            try:
                await archive.store([Ended(record, own_account=True)])
            finally:
                await archive.close()
        except TxManagerError as error:
            typer.echo(f"{attempt.hash} is not in the archive's books: {error}", err=True)
