"""`DurableObjectLedger`: the ledger protocol over a Worker, one object per lane; `workers/ledger` is the other side."""

from __future__ import annotations

from txmanager.ledger.durable.finals import Finals
from txmanager.ledger.durable.mailbox import DurableMailbox
from txmanager.ledger.durable.numbers import Numbers
from txmanager.ledger.durable.owners import Owners
from txmanager.ledger.durable.sessions import SessionDesk
from txmanager.ledger.durable.sharing import Sharing


class DurableObjectLedger(Finals, Owners, Sharing, Numbers, SessionDesk):
    """All parts of `Ledger`. Each call is one step in one object; every answer waits for the object's disk."""

    @property
    def mailbox(self) -> DurableMailbox:
        return DurableMailbox(self._shared)
