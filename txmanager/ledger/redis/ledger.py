"""`RedisLedger`: the ledger on Redis or Valkey, single, Sentinel or Cluster.

Every method is one script (or one per home and one per lane), named after the transition it makes. Python builds the
arguments and reads the words; Lua compares and writes. Nothing here decides anything about money.
"""

from __future__ import annotations

from txmanager.ledger.redis.audit import AuditLog
from txmanager.ledger.redis.finals import Finals
from txmanager.ledger.redis.mailbox import RedisMailbox
from txmanager.ledger.redis.numbers import Numbers
from txmanager.ledger.redis.owners import Owners
from txmanager.ledger.redis.producers import Producers
from txmanager.ledger.redis.quotas import Sharing
from txmanager.ledger.redis.sessions import SessionDesk
from txmanager.ledger.redis.watchers import Watchers


class RedisLedger(Producers, Owners, Watchers, Numbers, Finals, Sharing, AuditLog, SessionDesk):
    """Who accepts, owns and watches, what is handed out, what stays, who asked, who is logged in: one backend."""

    @property
    def mailbox(self) -> RedisMailbox:
        return RedisMailbox(self._runner, self._keys.prefix)
