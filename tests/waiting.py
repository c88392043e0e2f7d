"""`until` and `until_sync`, which the ledger promises bring along."""

from txmanager.testing.waiting import until, until_sync

__all__ = ["until", "until_sync"]
