"""How many attempts of a lane may be sent and not yet included: fixed, or found out from what the nodes take.

A window that may grow is doubled each time nodes hold a whole window of this lane, and halved when they refuse one more
for want of room; it is left alone for a while then. Losing it costs a few rounds, never money.
"""

from __future__ import annotations

GROW_AGAIN_MS = 60_000
"""For so long after a refusal for want of room a window does not grow."""


class Window:
    def __init__(self, start: int, most: int) -> None:
        self._start = start
        self._most = max(start, most)
        self.size = start
        self._refused_at: int | None = None

    def holds(self, count: int) -> None:
        """Nodes took this many that are not included yet."""
        if self._refused_at is None and count >= self.size:
            self.size = min(self._most, 2 * count)

    def no_room(self, count: int, now: int) -> None:
        """A node that has this many refused the next for want of room. One refusal counts once: others that come
        before the pause is over are of the same fullness."""
        if self._refused_at is None:
            self.size = max(self._start, min(self.size, count) // 2)
            self._refused_at = now

    def later(self, now: int) -> None:
        if self._refused_at is not None and not 0 <= now - self._refused_at <= GROW_AGAIN_MS:
            self._refused_at = None
