"""What every ledger promises, as functions over a `Stage`; docs/ledgers.md shows how to run them.

@pytest.mark.parametrize("promise", PROMISES)
async def test_promise(promise, stage):
    await PROMISES[promise](stage)
"""

from txmanager.testing.ledger import (
    accepting,
    archiving,
    aside,
    attempts,
    audit,
    breaks,
    budgets,
    ending,
    finals,
    hints,
    home_at_once,
    lanes,
    listing,
    owners,
    parking,
    producers,
    quotas,
    reservations,
    sessions,
    watchers,
)
from txmanager.testing.ledger.registry import PROMISES, Promise
from txmanager.testing.ledger.stage import Stage

__all__ = [
    "PROMISES",
    "Promise",
    "Stage",
    "accepting",
    "archiving",
    "aside",
    "attempts",
    "audit",
    "breaks",
    "budgets",
    "ending",
    "finals",
    "hints",
    "home_at_once",
    "lanes",
    "listing",
    "owners",
    "parking",
    "producers",
    "quotas",
    "reservations",
    "sessions",
    "watchers",
]
