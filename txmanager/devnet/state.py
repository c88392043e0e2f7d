"""Chain state with memory: read at the head or at any kept height, undo a receipt or a whole block.

A value once written for a height never changes for that height, unless the block itself is orphaned.
Keys: `(account,)`, `(account, public_key)`, `(account, public_key, nonce_index)`,
`(account, None, data_key)` for contract storage. `None` means absent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from operator import itemgetter
from typing import Any

Key = tuple[Hashable, ...]

_TRIM_AT = 64


class State:
    __slots__ = ("_history", "_journal", "head", "horizon")

    def __init__(self, genesis: dict[Key, Any]) -> None:
        self.head = dict(genesis)
        self.horizon = 0  # heights below it may be forgotten
        self._history: dict[Key, list[tuple[int, Any]]] = {}
        self._journal: list[tuple[Key, Any]] = []

    def get(self, key: Key) -> Any:
        return self.head.get(key)

    def put(self, key: Key, value: Any) -> None:
        self._journal.append((key, self.head.get(key)))
        if value is None:
            self.head.pop(key, None)
        else:
            self.head[key] = value

    def mark(self) -> int:
        return len(self._journal)

    def revert(self, mark: int) -> None:
        """Undo every write since `mark`: a failed receipt leaves no trace."""
        journal = self._journal
        while len(journal) > mark:
            key, old = journal.pop()
            if old is None:
                self.head.pop(key, None)
            else:
                self.head[key] = old

    def seal(self, height: int) -> dict[Key, Any]:
        """Close a block: remember its values for later views; answers what undoes it."""
        undo: dict[Key, Any] = {}
        for key, old in self._journal:
            undo.setdefault(key, old)
        self._journal.clear()
        for key, old in undo.items():
            past = self._history.get(key)
            if past is None:
                past = self._history[key] = [(-1, old)]
            past.append((height, self.head.get(key)))
            if len(past) % _TRIM_AT == 0:
                self._trim(past)
        return undo

    def unseal(self, height: int, undo: dict[Key, Any]) -> None:
        """Take an orphaned block back. Only ever the newest sealed one."""
        for key, old in undo.items():
            past = self._history[key]
            assert past[-1][0] == height
            past.pop()
            if old is None:
                self.head.pop(key, None)
            else:
                self.head[key] = old

    def at(self, key: Key, height: int) -> Any:
        past = self._history.get(key)
        if past is None:
            return self.head.get(key)
        if past[-1][0] <= height:
            return past[-1][1]
        found = bisect_right(past, height, key=itemgetter(0))
        return past[max(0, found - 1)][1]

    def _trim(self, past: list[tuple[int, Any]]) -> None:
        keep = 0
        while keep + 1 < len(past) and past[keep + 1][0] <= self.horizon:
            keep += 1
        del past[:keep]
