"""What the API answers, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from txmanager.client.errors import BadAnswer, Refused
from txmanager.core.states import LaneState, Status


@dataclass(frozen=True, slots=True)
class Attempt:
    nonce: int
    tx_hash: str
    purpose: str
    signed_at: datetime
    dead: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Record:
    """Everything there is to know of an intent."""

    idempotency_key: str
    kind: str
    pool: str
    lane: str
    status: Status
    tx_hash: str | None
    nonce: int | None
    attempts: tuple[Attempt, ...]
    outcome: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime
    metadata: Mapping[str, Any]
    replayed: bool = field(default=False, compare=False)
    """Whether the submit that answered this met a known key."""
    tenant: str | None = None
    life: str | None = None
    """Names this use of the key, for ever. In lists; and so are tenant and payload."""
    payload: Mapping[str, Any] | None = None
    charge: int | None = None
    """What budgets hold for it at most, and what it cost in the end: in the chain's smallest unit."""
    cost: int | None = None

    @property
    def final(self) -> bool:
        return self.status.final

    @property
    def done(self) -> bool:
        return self.status is Status.DONE

    @property
    def result(self) -> Any:
        """What the chain said of a final intent."""
        return None if self.outcome is None else self.outcome["result"]


@dataclass(frozen=True, slots=True)
class IntentPage:
    """One page of a list, newest first."""

    intents: tuple[Record, ...]
    cursor: str | None
    """Where the next page begins; None at the end."""
    partial: bool
    """It looked at enough and stopped: there may be more behind the cursor."""
    archived: bool
    """Whether ended intents are listed."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What `execute` answers: `outcome` is what the chain said."""

    tx_hash: str
    outcome: Any
    record: Record


@dataclass(frozen=True, slots=True)
class Event:
    """One transition of an intent. Its id is the same when it arrives twice."""

    id: str
    idempotency_key: str
    lane: str
    pool: str
    status: Status
    at: datetime
    tx_hash: str | None = None
    error: str | None = None
    tenant: str | None = None
    """Told to those who follow all tenants."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of one intent of many: a record, or the error that a call of its own would have raised."""

    index: int
    """Its place among those that were given, from 0."""
    result: Literal["accepted", "replayed", "refused"]
    record: Record | None
    error: Refused | None


@dataclass(frozen=True, slots=True)
class Lane:
    lane: str
    pool: str
    state: LaneState
    keyless: bool
    reason: str
    evidence: Mapping[str, Any]
    owner: str
    epoch: int
    lease_ms: int
    cursor: int | None
    landed: int | None
    depth: int
    unfinished: int
    oldest_ms: int


def record(fields: Any, replayed: bool = False) -> Record:
    try:
        attempts = tuple(
            Attempt(**{**a, "signed_at": datetime.fromisoformat(a["signed_at"])}) for a in fields["attempts"]
        )
        money = {name: int(fields[name]) for name in ("charge", "cost") if fields.get(name) is not None}
        dated = _dated(fields, "created_at", "updated_at")
        return Record(**{**dated, **money, "attempts": attempts, "replayed": replayed})
    except (TypeError, KeyError, ValueError) as error:
        raise BadAnswer(f"what came back is no record: {error}") from None


def page(answer: Any) -> IntentPage:
    try:
        return IntentPage(**{**answer, "intents": tuple(record(one) for one in answer["intents"])})
    except (TypeError, KeyError) as error:
        raise BadAnswer(f"what came back is no list: {error}") from None


def usage(answer: Any) -> list[Mapping[str, Any]]:
    """Amounts as whole numbers: exact, in the chain's smallest unit."""
    try:
        return [{**line, "cost": int(line["cost"]), "deposits": int(line["deposits"])} for line in answer["usage"]]
    except (TypeError, KeyError, ValueError) as error:
        raise BadAnswer(f"what came back is no usage: {error}") from None


def event(fields: Any) -> Event:
    try:
        return Event(**_dated(fields, "at"))
    except (TypeError, KeyError, ValueError) as error:
        raise BadAnswer(f"what came back is no event: {error}") from None


def lane(fields: Any) -> Lane:
    try:
        return Lane(**{**fields, "state": LaneState(fields["state"])})
    except (TypeError, KeyError, ValueError) as error:
        raise BadAnswer(f"what came back is no lane: {error}") from None


def _dated(fields: Any, *names: str) -> dict[str, Any]:
    dates = {name: datetime.fromisoformat(fields[name]) for name in names}
    return {**fields, "status": Status(fields["status"]), **dates}
