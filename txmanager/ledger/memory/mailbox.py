"""`MemoryMailbox`: the reference of what a mailbox remembers, for one process."""

from __future__ import annotations

import time
from collections.abc import Callable

from txmanager.core.mailbox import DEAD_LIMIT, DeadLetter


class MemoryMailbox:
    def __init__(self, clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._clock = clock
        self._holders: dict[str, tuple[str, int]] = {}
        self._places: dict[str, dict[str, str]] = {}
        self._dead: dict[str, DeadLetter] = {}
        self._again: dict[str, DeadLetter] = {}

    async def hold(self, target: str, holder: str, for_ms: int) -> bool:
        now = self._clock()
        current, until = self._holders.get(target, ("", 0))
        if current != holder and until > now:
            return False
        self._holders[target] = (holder, now + for_ms)
        return True

    async def places(self, target: str) -> dict[str, str]:
        return dict(self._places.get(target, {}))

    async def advance(self, target: str, lane: str, event_id: str) -> None:
        self._places.setdefault(target, {})[lane] = event_id

    async def bury(self, letter: DeadLetter) -> None:
        self._again.pop(letter.id, None)
        self._dead[letter.id] = letter
        while len(self._dead) > DEAD_LIMIT:
            del self._dead[min(self._dead.values(), key=lambda found: found.at).id]

    async def dead(self) -> list[DeadLetter]:
        return sorted(self._dead.values(), key=lambda letter: -letter.at)

    async def revive(self, id: str) -> DeadLetter | None:
        letter = self._dead.pop(id, None)
        if letter is not None:
            self._again[id] = letter
        return letter or self._again.get(id)

    async def revived(self, target: str) -> list[DeadLetter]:
        return [letter for letter in self._again.values() if letter.target == target]

    async def delivered(self, id: str) -> None:
        self._again.pop(id, None)
