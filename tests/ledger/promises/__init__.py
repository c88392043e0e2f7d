"""What every backend promises, as functions over a `Stage`."""

from tests.ledger.promises import attempts, audit, ending, finals, lanes, owners, producers, reservations, watchers
from tests.ledger.promises.registry import PROMISES, Promise

__all__ = [
    "PROMISES",
    "Promise",
    "attempts",
    "audit",
    "ending",
    "finals",
    "lanes",
    "owners",
    "producers",
    "reservations",
    "watchers",
]
