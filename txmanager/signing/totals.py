"""What each key signed for today, on disk before a signature leaves.

One SQLite file, synced at every commit. Of all transactions in one slot (one nonce) only one can land, so a slot counts
with the dearest of them: replacements and repeated questions are not counted twice. A day is a UTC day and never goes
back, whatever the clock does.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from txmanager.core.errors import InvalidSettings, SignerAway
from txmanager.core.signing_policy import Effects, KeyPolicy, Refusal, fits

_DAY_S = 86_400
_KEPT_DAYS = 3
"""How long a slot is remembered at least; a replacement after that counts as another transaction."""
_FORGOTTEN_AT_ONCE = 256
"""More than one batch adds, so that the file does not grow for ever."""
_TABLES = """
CREATE TABLE IF NOT EXISTS totals (
    key TEXT NOT NULL, day INTEGER NOT NULL, spent TEXT NOT NULL, PRIMARY KEY (key, day)
);
CREATE TABLE IF NOT EXISTS slots (
    key TEXT NOT NULL, slot TEXT NOT NULL, day INTEGER NOT NULL, cost TEXT NOT NULL, PRIMARY KEY (key, slot)
);
"""
_WHERE = "signer.state"


def create(path: Path) -> bool:
    """Make the file, once; whether it was made now."""
    if path.exists():
        return False
    try:
        path.touch(mode=0o600)
        with sqlite3.connect(path) as made:
            made.executescript(_TABLES)
        made.close()
    except (OSError, sqlite3.Error) as error:
        raise InvalidSettings(_WHERE, f"cannot make {path}: {error}") from None
    return True


class Totals:
    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        if not path.exists():
            # A lost file must not give out the day's money a second time.
            words = f"{path} is not there; run `txmanager signer --init` once, or restore it from where it was lost"
            raise InvalidSettings(_WHERE, words)
        self._clock = clock
        self._turn = threading.Lock()
        try:
            self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("BEGIN IMMEDIATE")
            [(newest,)] = self._file.execute("SELECT max(day) FROM totals")
            self._file.execute("CREATE INDEX IF NOT EXISTS slots_by_day ON slots (day)")
            self._file.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise InvalidSettings(_WHERE, f"cannot use {path} ({error}); only one signer may have it") from None
        except sqlite3.Error as error:
            raise InvalidSettings(_WHERE, f"{path} is not a signer's state ({error})") from None
        self._newest: int = newest or 0

    def spend(self, key: str, policy: KeyPolicy, wanted: Sequence[Effects]) -> list[Refusal | None]:
        """Count what fits into the day, durably; the others are refused. `SignerAway` when nothing could be written.
        Blocks for a sync of the disk."""
        with self._turn:
            try:
                return self._spend(key, policy, wanted)
            except sqlite3.Error as error:
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                raise SignerAway(f"the day's total cannot be written ({error}); nothing was signed") from None

    def _spend(self, key: str, policy: KeyPolicy, wanted: Sequence[Effects]) -> list[Refusal | None]:
        run, day = self._file.execute, self.today()
        run("BEGIN IMMEDIATE")
        spent = before = self._spent(key, day)
        answers: list[Refusal | None] = []
        for one in wanted:
            [row] = run("SELECT cost FROM slots WHERE key = ? AND slot = ?", (key, one.slot)).fetchall() or [("0",)]
            more = max(0, one.cost - int(row[0]))
            refusal = fits(policy, spent, more)
            answers.append(refusal)
            if refusal is None and more:
                spent += more
                run("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?)", (key, one.slot, day, str(one.cost)))
        if spent != before:
            run("INSERT OR REPLACE INTO totals VALUES (?, ?, ?)", (key, day, str(spent)))
        if day > self._newest:
            run("DELETE FROM totals WHERE day < ?", (day - _KEPT_DAYS,))
        old = "SELECT rowid FROM slots WHERE day < ? LIMIT ?"  # a few each time: nobody waits for millions at midnight
        run(f"DELETE FROM slots WHERE rowid IN ({old})", (day - _KEPT_DAYS, _FORGOTTEN_AT_ONCE))
        run("COMMIT")
        self._newest = max(day, self._newest)
        return answers

    def spent(self, key: str) -> int:
        with self._turn:
            return self._spent(key, self.today())

    def today(self) -> int:
        return max(int(self._clock() // _DAY_S), self._newest)

    def _spent(self, key: str, day: int) -> int:
        found = self._file.execute("SELECT spent FROM totals WHERE key = ? AND day = ?", (key, day)).fetchall()
        return int(found[0][0]) if found else 0

    def close(self) -> None:
        self._file.close()
