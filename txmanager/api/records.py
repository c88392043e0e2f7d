"""The one shape of a record, an event and a lane in JSON. A final record always makes the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

from txmanager.core.bounds import bounded
from txmanager.core.budgets import charge_of, cost_of
from txmanager.core.models import Attempt, Json, Lane, Record
from txmanager.core.states import LaneState, Status
from txmanager.runtime.deliver.events import instant

_HINTS = {
    "create:": "the key was derived from the payload; an Idempotency-Key of your own allows another try",
    "recovery:": "the key was derived from the payload; an Idempotency-Key of your own allows another try",
    "delegate:": "a delegate is relayed once; let the user sign a new one for another try",
}
"""What a failure under a derived key tells: the same request would only replay it."""


class View(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AttemptView(View):
    """One signed transaction. `dead` is the proof that it can never land."""

    nonce: int
    tx_hash: str
    purpose: str = Field(examples=["first"])
    signed_at: str = Field(json_schema_extra={"format": "date-time"})
    dead: dict[str, Any] | None


class OutcomeView(View):
    """The final result, from chain data."""

    status: Status
    result: dict[str, Any] | None


class RecordView(View):
    """Everything there is to know of an intent."""

    idempotency_key: str
    kind: str = Field(examples=["near.create_account"])
    pool: str
    lane: str = Field(description="The signing key whose queue it went through.")
    status: Status
    tx_hash: str | None
    nonce: int | None
    attempts: list[AttemptView]
    outcome: OutcomeView | None
    error: dict[str, Any] | None = Field(description="`code`, `message`, `spent` and `new_key_helps` of a failure.")
    created_at: str = Field(json_schema_extra={"format": "date-time"})
    updated_at: str = Field(json_schema_extra={"format": "date-time"})
    metadata: dict[str, Any]
    charge: str | None = Field(
        default=None, description="What budgets were charged for it at worst, in the smallest unit. Where one pays."
    )
    cost: str | None = Field(default=None, description="What they were booked at its end. Where one pays.")
    tenant: str | None = Field(default=None, description="Whose it is. In lists.")
    life: str | None = Field(default=None, description="Names this use of the key, for ever. In lists.")
    payload: dict[str, Any] | None = Field(
        default=None,
        description="As it was accepted; null where only the outcome is kept. In lists.",
    )


class EventView(View):
    """One transition."""

    id: str = Field(description="The same when the event is delivered twice.")
    idempotency_key: str
    lane: str
    pool: str
    status: Status
    at: str = Field(json_schema_extra={"format": "date-time"})
    tx_hash: str | None = None
    error: str | None = None
    tenant: str | None = Field(default=None, description="Told in webhooks, and to those who follow all tenants.")


class LaneView(View):
    """One signing key and its queue."""

    lane: str
    pool: str
    state: LaneState
    keyless: bool = Field(description="Whether the callers hold the key and sign themselves.")
    reason: str
    evidence: dict[str, Any]
    owner: str = Field(description="The worker that holds it; empty when nobody does.")
    epoch: int
    lease_ms: int
    cursor: int | None = Field(description="The next nonce to sign with.")
    landed: int | None
    depth: int = Field(description="Intents queued, in flight and held.")
    unfinished: int
    oldest_ms: int


def record_json(record: Record, *, whole: bool = False) -> dict[str, Json]:
    """`whole`: with what a list tells, and what the answer to a submit or a read leaves out: there it must be the same
    bytes for ever, and the payload goes when the intent ends."""
    intent, outcome = record.intent, record.outcome
    live = record.live
    tx_hash, nonce = (live[-1].hash, live[-1].nonce) if live else (None, None)
    if outcome is not None:
        tx_hash, nonce = outcome.tx_hash, outcome.nonce
    body = {
        "idempotency_key": intent.id.key,
        "kind": intent.kind,
        "pool": intent.id.pool,
        "lane": record.lane,
        "status": record.status.value,
        "tx_hash": tx_hash,
        "nonce": nonce,
        "attempts": [_attempt_json(attempt) for attempt in record.attempts],
        "outcome": None if outcome is None else {"status": outcome.status.value, "result": outcome.result},
        "error": _error_json(record),
        "created_at": instant(record.created_at),
        "updated_at": instant(record.updated_at),
        "metadata": intent.metadata,
    }
    if (noted := charge_of(intent)) is not None:
        body["charge"] = str(noted.amount)
        if record.status.final:
            body["cost"] = str(cost_of(record))
    if whole:
        body |= {"tenant": intent.id.tenant, "life": record.life, "payload": intent.payload or None}
    return body


def record_bytes(record: Record, *, whole: bool = False) -> bytes:
    try:
        return orjson.dumps(record_json(record, whole=whole))
    except TypeError:  # a result that an older release stored, deeper than JSON writers go
        assert record.outcome is not None
        return orjson.dumps(record_json(replace(record, outcome=bounded(record.outcome)), whole=whole))


def _attempt_json(attempt: Attempt) -> dict[str, Json]:
    return {
        "nonce": attempt.nonce,
        "tx_hash": attempt.hash,
        "purpose": attempt.purpose.value,
        "signed_at": instant(attempt.signed_at),
        "dead": attempt.proof,
    }


def _error_json(record: Record) -> Mapping[str, Json] | None:
    if record.outcome is not None:
        error = record.outcome.error
        if error is None:
            return None
        key = record.id.key
        hint = next((words for begin, words in _HINTS.items() if key.startswith(begin)), None)
        return error if hint is None else {**error, "hint": hint}
    if record.status is Status.HELD and record.hold is not None:
        return {"code": "held", **record.hold}
    return None


_HIDDEN = 'told to tokens with tenant = "*"'


def lane_json(lane: Lane, *, whole: bool = True) -> dict[str, Json]:
    """`whole`: with the reason and the evidence, which may name intents of any tenant."""
    return {
        "lane": lane.id,
        "pool": lane.spec.pool,
        "state": lane.state.value,
        "keyless": lane.keyless,
        "reason": lane.reason if whole or not lane.reason else str(lane.cause or _HIDDEN),
        "evidence": lane.evidence if whole else {},
        "owner": lane.owner if lane.lease_ms else "",
        "epoch": lane.epoch,
        "lease_ms": lane.lease_ms,
        "cursor": lane.cursor,
        "landed": lane.landed,
        "depth": lane.depth,
        "unfinished": lane.unfinished,
        "oldest_ms": lane.oldest_ms,
    }
