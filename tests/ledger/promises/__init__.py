"""What every backend promises, as functions over a `Stage`."""

from tests.ledger.promises import (
    aside,
    attempts,
    audit,
    breaks,
    ending,
    finals,
    lanes,
    owners,
    producers,
    quotas,
    reservations,
    watchers,
)
from tests.ledger.promises.registry import PROMISES, Promise

__all__ = [
    "PROMISES",
    "Promise",
    "aside",
    "attempts",
    "audit",
    "breaks",
    "ending",
    "finals",
    "lanes",
    "owners",
    "producers",
    "quotas",
    "reservations",
    "watchers",
]
