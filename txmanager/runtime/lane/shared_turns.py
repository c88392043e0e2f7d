"""One unsettled intent per number of somebody else's sequence, on whatever lane, pool or tenant of the network it is.

Lanes do not see each other. So before anything is signed, the number is taken in the ledger: the first intent has it
until it ended. After a crash the same intent finds it its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from txmanager.core.chain import Impossible
from txmanager.core.ledger import Taken
from txmanager.core.models import Intent, Json, Record, failure
from txmanager.core.states import Status
from txmanager.core.turns import Turn, Turns
from txmanager.runtime.lane.breaks import Broken
from txmanager.runtime.lane.prepare import count_saved, prepare

if TYPE_CHECKING:
    from txmanager.runtime.lane.owner import OwnedLane
    from txmanager.runtime.lane.wallet import Wanted

_RANKS = 8
"""How many intents may have had one number and ended, before it is given to none any more."""
_MARK = "v1:turn"
"""Every intent asks for a number with the same words, so that the ledger answers who has it."""


@dataclass(slots=True)
class Shared:
    ready: list[Wanted] = field(default_factory=list)
    failed: list[tuple[Taken, dict[str, Json]]] = field(default_factory=list)


async def share(lane: OwnedLane, turns: Turns, wanted: Sequence[Wanted]) -> Shared:
    """Those of a batch that may be signed, in order, and those whose number another intent has."""
    answers = await asyncio.gather(*(_refusal(lane, turns, entry.intent) for entry, _ in wanted))
    shared = Shared()
    for one, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, Broken):
            lane.plan.take_again()  # and found broken before anything else is asked of it
            break
        if answer is None:
            shared.ready.append(one)
        else:
            shared.failed.append((one[0], dict(answer)))
    return shared


async def _refusal(lane: OwnedLane, turns: Turns, intent: Intent) -> Mapping[str, Json] | Broken | None:
    turn = turns.turn_of(intent)
    if turn is None:
        return None
    ledger, ended = lane.context.ledger, False
    for rank in range(_RANKS):
        ask = partial(ledger.alias, turn.place(lane.id, rank), _MARK, intent.id)
        holder = (await lane.retry_while_leased(ask)).alias_of
        if holder == intent.id:
            return await _checked_again(lane, intent) if ended else None
        if holder is None:
            break
        record = await lane.retry_while_leased(partial(ledger.read, holder))
        if record is not None and _has(record):
            break
        ended = True
    count_saved(lane, "nonce_in_use")
    return _in_use(turn)


def _has(record: Record) -> bool:
    """An intent that failed may have left the number unused; the chain knows."""
    return not record.status.final or record.status is Status.DONE


async def _checked_again(lane: OwnedLane, intent: Intent) -> Mapping[str, Json] | Broken | None:
    """Whoever had the number ended, perhaps after the chain was asked for this intent."""
    [now] = await prepare(lane, [intent])
    if isinstance(now, Broken):
        return now
    if not isinstance(now, Impossible):
        return None
    count_saved(lane, now.saved)
    return now.error


def _in_use(turn: Turn) -> dict[str, Json]:
    return failure(
        "nonce_in_use",
        f"another intent, of another lane, uses or used nonce {turn.number} of {turn.sequence}: this one would fail on "
        "chain. Nothing was signed and nothing spent; sign a new one with a higher nonce",
        new_key_helps=False,
    )
