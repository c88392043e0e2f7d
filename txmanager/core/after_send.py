"""What a gateway does after a node answered a send: the verdict decides, nothing else.

`sent`: the node has the bytes, the next nonce may follow. `retry`: the node took nothing now and says so; the same
bytes go again later. `maybe`: nobody knows; the bytes are kept until the chain decides. `refuse`: the node will never
take them; they end and the caller is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from txmanager.core.chain import SendReply, Verdict


class Fate(StrEnum):
    SENT = "sent"
    RETRY = "retry"
    MAYBE = "maybe"
    REFUSE = "refuse"


FATES: Mapping[Verdict, Fate] = {
    Verdict.ACCEPTED: Fate.SENT,
    Verdict.ALREADY_KNOWN: Fate.SENT,
    # It has no place for it now: a predecessor is missing, the pool is full, one at a time.
    Verdict.NONCE_GAP: Fate.RETRY,
    Verdict.BUSY: Fate.RETRY,
    Verdict.ONE_AT_A_TIME: Fate.RETRY,
    # Ours may be the one that used the nonce: only a look-up tells.
    Verdict.NONCE_TOO_LOW: Fate.MAYBE,
    Verdict.RATE_LIMITED: Fate.MAYBE,
    Verdict.UNAVAILABLE: Fate.MAYBE,
    Verdict.UNKNOWN: Fate.MAYBE,
    Verdict.EXPIRED: Fate.REFUSE,
    Verdict.UNDERPRICED: Fate.REFUSE,
    Verdict.REPLACEMENT_UNDERPRICED: Fate.REFUSE,
    Verdict.INVALID_FEE: Fate.REFUSE,
    Verdict.FEE_CAP_EXCEEDED: Fate.REFUSE,
    Verdict.INSUFFICIENT_FUNDS: Fate.REFUSE,
    Verdict.KEY_MISSING: Fate.REFUSE,
    Verdict.PERMANENT: Fate.REFUSE,
}


def after_send(reply: SendReply) -> Fate:
    return FATES[reply.verdict]
