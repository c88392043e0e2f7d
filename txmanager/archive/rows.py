"""Between a final record and its rows. Numbers that no JSON reader keeps exactly are text."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from txmanager.core.archive import Ended, Spending
from txmanager.core.bounds import bounded
from txmanager.core.listing import error_code, mark_of, metadata_text
from txmanager.core.models import Attempt, Intent, IntentId, Json, Outcome, Purpose, Record
from txmanager.core.states import Status

HASH, RECEIVER, METADATA = "hash", "receiver", "metadata."
_LONGEST = 255
"""Of a tag's value: nothing longer can be asked for."""


def dumps(value: Json) -> str:
    # PostgreSQL's text takes every character but this one, which JSON may name
    return orjson.dumps(value).decode().replace("\\u0000", "\\ufffd")


def storable(ended: Ended) -> Ended:
    """As it can be written: a result that an older release stored may be deeper than JSON writers go."""
    outcome = ended.record.outcome
    assert outcome is not None
    try:
        orjson.dumps(outcome.result)
    except TypeError:
        return replace(ended, record=replace(ended.record, outcome=bounded(outcome)))
    return ended


def intent_row(ended: Ended) -> dict[str, Any]:
    record = ended.record
    accepted_at, life = mark_of(record)
    return {
        "tenant": record.id.tenant,
        "pool": record.id.pool,
        "key": record.id.key,
        "life": life,
        "accepted_at": accepted_at,
        "ended_at": record.updated_at,
        "lane": record.lane,
        "kind": record.intent.kind,
        "status": record.status.value,
        "error": error_code(record),
        "outcome": outcome_digest(record),
    }


def outcome_digest(record: Record) -> str:
    """Of what the chain said: two archivers, or two observers, must come to the same."""
    assert record.outcome is not None
    content = orjson.dumps(_outcome_json(record.outcome), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def tag_rows(ended: Ended, indexed: Collection[str]) -> Iterator[tuple[str, str]]:
    record = ended.record
    yield from ((HASH, attempt.hash) for attempt in record.attempts)
    yield from ((RECEIVER, receiver) for receiver in ended.receivers if len(receiver) <= _LONGEST)
    for name in indexed:
        value = metadata_text(record, name)
        if value is not None and len(value) <= _LONGEST and "\0" not in value:
            yield METADATA + name, value


def usage_key(ended: Ended, spending: Spending) -> dict[str, str]:
    record = ended.record
    return {
        "day": datetime.fromtimestamp(record.updated_at / 1000, UTC).strftime("%Y-%m-%d"),
        "tenant": record.id.tenant,
        "token": record.intent.token,
        "pool": record.id.pool,
        "kind": record.intent.kind,
        "network": network_of(record.lane),
        "spending": spending.value,
    }


def network_of(lane: str) -> str:
    """The chain and the network of a lane, which its id begins with."""
    return ":".join(lane.split(":", 2)[:2])


def document_row(ended: Ended) -> dict[str, Any]:
    record = ended.record
    return {
        "record": dumps(_record_json(record)),
        "payload": dumps(record.intent.payload) if ended.whole else None,
    }


def _record_json(record: Record) -> dict[str, Json]:
    intent = record.intent
    assert record.outcome is not None
    return {
        "fingerprint": intent.fingerprint,
        "partition_key": intent.partition_key,
        "max_age_s": intent.max_age_s,
        "metadata": intent.metadata,
        "version": intent.version,
        "limits": intent.limits,
        "token": intent.token,
        "position": record.position,
        "created_at": record.created_at,
        "attempts": [_attempt_json(attempt) for attempt in record.attempts],
        "outcome": _outcome_json(record.outcome),
        "hold": record.hold,
        "cancel_requested": record.cancel_requested,
        "resigns": record.resigns,
    }


def _attempt_json(attempt: Attempt) -> dict[str, Json]:
    return {
        "nonce": str(attempt.nonce),
        "hash": attempt.hash,
        "purpose": attempt.purpose,
        "signed_at": attempt.signed_at,
        "base_height": str(attempt.base_height),
        "valid_until": None if attempt.valid_until is None else str(attempt.valid_until),
        "terms": attempt.terms,
        "proof": attempt.proof,
    }


def _outcome_json(outcome: Outcome) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "status": outcome.status,
        "tx_hash": outcome.tx_hash,
        "nonce": None if outcome.nonce is None else str(outcome.nonce),
        "result": outcome.result,
        "error": outcome.error,
        "cost": None if outcome.cost is None else str(outcome.cost),
    }
    # Only where there is one: the digest of what an older release archived stays the same.
    return {**fields, "noop_cost": str(outcome.noop_cost)} if outcome.noop_cost else fields


def read_record(row: Any) -> Record:
    """From a row of `intents` joined with its document."""
    document = orjson.loads(row.record)
    outcome = document["outcome"]
    status = Status(row.status)
    return Record(
        intent=Intent(
            id=IntentId(pool=row.pool, key=row.key, tenant=row.tenant),
            kind=row.kind,
            payload=orjson.loads(row.payload) if row.payload is not None else {},
            fingerprint=document["fingerprint"],
            partition_key=document["partition_key"],
            max_age_s=document["max_age_s"],
            metadata=document["metadata"],
            version=document["version"],
            limits=document["limits"],
            token=document["token"],
        ),
        lane=row.lane,
        life=row.life,
        status=status,
        position=document["position"],
        created_at=document["created_at"],
        updated_at=row.ended_at,
        attempts=tuple(_attempt(one) for one in document["attempts"]),
        outcome=Outcome(
            status=status,
            tx_hash=outcome["tx_hash"],
            nonce=None if outcome["nonce"] is None else int(outcome["nonce"]),
            result=outcome["result"],
            error=outcome["error"],
            cost=None if outcome["cost"] is None else int(outcome["cost"]),
            noop_cost=int(outcome.get("noop_cost", 0)),
        ),
        hold=document["hold"],
        cancel_requested=document["cancel_requested"],
        resigns=document["resigns"],
    )


def _attempt(fields: Json) -> Attempt:
    until = fields["valid_until"]
    return Attempt(
        nonce=int(fields["nonce"]),
        hash=fields["hash"],
        raw=b"",
        purpose=Purpose(fields["purpose"]),
        signed_at=fields["signed_at"],
        base_height=int(fields["base_height"]),
        valid_until=None if until is None else int(until),
        terms=fields["terms"],
        proof=fields["proof"],
    )
