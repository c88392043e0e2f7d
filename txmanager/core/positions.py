"""Where something stands in a lane: a text that the ledger gives out, and that has a place in an order.

Keep a position and hand it back, or compare the places of two; read nothing else out of it. Each lane counts its
entries and its events on its own. Places grow with time: `(ms, 0)` is before all of that millisecond.
"""

from __future__ import annotations

Place = tuple[int, int]
START = "0-0"
"""Before everything."""


def place(position: str) -> Place:
    ms, _, count = position.partition("-")
    return int(ms), int(count)


def place_text(at: Place) -> str:
    """The position that has this place."""
    return f"{at[0]}-{at[1]}"
