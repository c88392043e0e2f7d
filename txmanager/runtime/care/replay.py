"""After a rollback past finality: send again, in nonce order, the very bytes that had landed.

The same bytes at the same nonce can land once at most, so nothing is paid twice. It works on a quarantined lane only:
its owner signs nothing meanwhile, and a rebaseline would fill these nonces with no-ops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from txmanager.core.chain import Chain, SendReply
from txmanager.core.errors import NotAllowed, NotFound
from txmanager.core.ledger import Landed, Ledger
from txmanager.core.models import Attempt, Lane, Purpose
from txmanager.core.states import LaneState
from txmanager.core.stops import QuarantineCause

_AT_ONCE = 16
"""Pools guarantee room for so many of one account."""


@dataclass(frozen=True, slots=True)
class Replay:
    lane: str
    next_nonce: int
    """What the chain would take next."""
    cursor: int
    """What the lane would sign next: everything between was signed before."""
    ready: tuple[Landed, ...]
    """What can be sent: kept, and without a gap from `next_nonce` on."""
    missing: tuple[int, ...]
    """Nonces whose bytes are not kept. Nothing above the first of them can land before it is used."""


def check_replayable(lane: Lane) -> None:
    if lane.state is not LaneState.QUARANTINED or lane.cause is not QuarantineCause.REORG_BEYOND_FINALITY:
        why = f" ({lane.reason})" if lane.reason else ""
        raise NotAllowed(
            f"lane {lane.id} is {lane.state}{why}: only a lane that is quarantined for "
            f"{QuarantineCause.REORG_BEYOND_FINALITY} can be replayed, before it is rebaselined"
        )


async def plan_replay(ledger: Ledger, chain: Chain, lane: str) -> Replay:
    view = await ledger.lane(lane)
    if view is None:
        raise NotFound(f"no lane {lane}")
    check_replayable(view)
    start, cursor = (await chain.nonce(lane)).next_nonce, view.cursor or 0
    kept = {one.nonce: one for one in await ledger.kept(lane, start)}
    open_ones = {attempt.nonce for record in await ledger.pending(lane) for attempt in record.attempts}
    missing = tuple(n for n in range(start, cursor) if n not in kept and n not in open_ones)
    end = missing[0] if missing else cursor
    return Replay(lane, start, cursor, tuple(kept[n] for n in range(start, end) if n in kept), missing)


async def send_again(
    chain: Chain, replay: Replay, progress: Callable[[int], None] = lambda sent: None
) -> SendReply | None:
    """Lowest nonce first; answers the first refusal, or None when a node took everything. Repeating it is harmless."""
    sent = 0
    for at in range(0, len(replay.ready), _AT_ONCE):
        batch = [Attempt(one.nonce, one.hash, one.raw, Purpose.FIRST, 0) for one in replay.ready[at : at + _AT_ONCE]]
        for reply in await chain.broadcast(replay.lane, batch):
            if not reply.verdict.sent:
                return reply
            sent += 1
        progress(sent)
    return None
