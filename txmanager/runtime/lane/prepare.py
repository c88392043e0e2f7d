"""What is found out about intents before anything is signed, and how they end when that shows they cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from txmanager.core.bounds import bounded
from txmanager.core.chain import Impossible, Prepared, Unpriced
from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import Settlement, Taken
from txmanager.core.models import Attempt, Intent, Json, Outcome, Record
from txmanager.core.states import Status
from txmanager.runtime.lane.breaks import Broken
from txmanager.runtime.lane.owner import OwnedLane


async def prepare(lane: OwnedLane, intents: list[Intent]) -> list[Prepared | Impossible | Unpriced | Broken]:
    """Poison must not stop a lane: what breaks the adapter is found among the others, before anything is signed."""
    try:
        return [*await lane.retry_while_leased(lambda: lane.chain.prepare(lane.id, intents))]
    except TxManagerError:
        raise
    except Exception as error:
        if len(intents) > 1:
            return [result for intent in intents for result in await prepare(lane, [intent])]
        return [Broken(error)]


async def fail_unsigned(lane: OwnedLane, failed: Sequence[tuple[Taken, Mapping[str, Json]]]) -> None:
    if not failed:
        return
    batch = [
        Settlement.of(record_of(lane.id, entry, Status.QUEUED), failed_outcome(lane, error), {})
        for entry, error in failed
    ]
    for (entry, _), item, answer in zip(failed, batch, await lane.settle(batch), strict=False):
        if answer.word == "settled":
            lane.context.metrics.settled.labels(lane.id, Status.FAILED).inc()
            if lane.traces is not None:
                lane.traces.settled(entry.intent, item.outcome, answer.at)


def failed_outcome(lane: OwnedLane, error: Mapping[str, Json]) -> Outcome:
    return bounded(Outcome(Status.FAILED, error=error), lane.policy.max_result_bytes)


def count_saved(lane: OwnedLane, why: str) -> None:
    if why:
        lane.context.metrics.saved.labels(lane.id, why).inc()


def record_of(lane: str, entry: Taken, status: Status, *attempts: Attempt) -> Record:
    return Record(
        intent=entry.intent,
        lane=lane,
        life=entry.life,
        status=status,
        position=entry.position,
        created_at=entry.at,
        updated_at=entry.at,
        attempts=attempts,
        seal=entry.seal,
    )
