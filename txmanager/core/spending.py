"""`max_cost`: what one intent may cost at most, fees included.

It is noted on the intent when that is accepted, so that the rule of that moment holds at every later signature,
whatever the configuration says then.
"""

from __future__ import annotations

from collections.abc import Mapping

from txmanager.core.models import Intent, Json

MAX_COST = "max_cost"


def noted(*limits: int | None) -> dict[str, Json]:
    """The limits of an intent as they are stored: the lowest of what a token and a pool allow."""
    given = [limit for limit in limits if limit is not None]
    return {MAX_COST: str(min(given))} if given else {}


def allowed(intent: Intent, pool: int | None) -> int | None:
    """What this intent may cost: as it was noted, and no more than its pool allows now."""
    stored = _stored(intent.limits)
    if stored is None or pool is None:
        return pool if stored is None else stored
    return min(stored, pool)


def _stored(limits: Mapping[str, Json]) -> int | None:
    if MAX_COST not in limits:
        return None
    limit = limits[MAX_COST]
    readable = isinstance(limit, str) and limit.isascii() and limit.isdigit() and len(limit) <= 100
    return int(limit) if readable else 0  # a limit that nobody can read allows nothing
