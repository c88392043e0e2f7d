"""Between models and what Redis stores. Nonces and money are decimal strings; raw bytes stay raw.

An attempt is `purpose SP json NUL raw`: Lua reads the first word, nothing parses the rest but this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from sys import intern
from typing import Any

import orjson

from txmanager.core.alerts import Check
from txmanager.core.bounds import bounded
from txmanager.core.errors import InvalidInput
from txmanager.core.ledger import Taken
from txmanager.core.models import Attempt, Event, Intent, IntentId, Json, Lane, LaneSpec, Outcome, Purpose, Record
from txmanager.core.positions import place, place_text
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause, StopCause, from_reason

Fields = Mapping[bytes, bytes]


def pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def dumps(value: Json, field: str = "payload") -> bytes:
    try:
        return b"%b" % orjson.dumps(value)  # a copy of its size: orjson's own answer keeps a buffer of 4 kB
    except TypeError as error:
        raise InvalidInput(
            field, f"cannot be stored as JSON ({error}); write whole numbers beyond 64 bits as strings"
        ) from None


def loads(text: bytes) -> Json:
    return orjson.loads(text)


def text(value: bytes | None) -> str:
    return value.decode() if value is not None else ""


# -- intents


def more(intent: Intent, seal: str = "") -> bytes:
    """What an entry carries besides kind and payload; mostly empty, so that records stay small."""
    extra: dict[str, Json] = {}
    if intent.metadata:
        extra["metadata"] = intent.metadata
    if intent.max_age_s is not None:
        extra["max_age_s"] = intent.max_age_s
    if intent.partition_key != intent.id.key:
        extra["partition_key"] = intent.partition_key
    if intent.version != 1:
        extra["version"] = intent.version
    if intent.limits:
        extra["limits"] = intent.limits
    if intent.token:
        extra["token"] = intent.token
    if intent.trace:
        extra["trace"] = intent.trace
    if seal:
        extra["seal"] = seal
    return dumps(extra, "metadata") if extra else b""


_ENTRY = (b"i", b"l", b"f", b"k", b"m", b"p")
"""The fields of an entry, in their order."""


def entry(sid: bytes, flat: Sequence[bytes]) -> Taken:
    """What `append` put into the queue, in its order."""
    _, id, _, life, _, fingerprint, _, kind, _, extra, _, payload = flat
    fields = {b"k": kind, b"f": fingerprint, b"m": extra}
    read, seal = intent(IntentId.parse(id.decode()), fields, payload)
    return Taken(read, life.decode(), sid.decode(), int(sid.partition(b"-")[0]), seal)


def heard(lines: bytes) -> Taken | None:
    """The entry that a wake-up carried. Anybody may speak on the channel: what cannot be read is no entry."""
    try:
        sid, *values = lines.split(b"\n", 6)
        flat = [part for pair in zip(_ENTRY, values, strict=True) for part in pair]
        taken = entry(sid, flat)
        place(taken.position)  # the lane compares it with its own
        return replace(taken, digest=hashlib.sha1(b"\n".join(flat), usedforsecurity=False).hexdigest())
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def told_final(id: IntentId, lane: str, line: bytes) -> Record | None:
    """The final record that a wake-up carried, with the same care."""
    try:
        life, fingerprint, body = line.split(b" ", 2)
        return unpack_final(id, fingerprint.decode(), life.decode(), lane, body)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


_NOTHING: Mapping[str, Json] = {}
"""Shared by all that carry nothing more: thousands of intents are in memory at once."""


def intent(id: IntentId, fields: Fields, payload: bytes | None) -> tuple[Intent, str]:
    """The intent, and its seal."""
    kind, fingerprint = intern(text(fields[b"k"])), text(fields[b"f"])
    body = loads(payload) if payload is not None else {}
    if not fields[b"m"]:
        return Intent(id, kind, body, fingerprint, id.key, metadata=_NOTHING, limits=_NOTHING), ""
    extra = loads(fields[b"m"])
    read = Intent(
        id=id,
        kind=kind,
        payload=body,
        fingerprint=fingerprint,
        partition_key=extra.get("partition_key", id.key),
        max_age_s=extra.get("max_age_s"),
        metadata=extra.get("metadata", {}),
        version=extra.get("version", 1),
        limits=extra.get("limits", {}),
        token=extra.get("token", ""),
        trace=extra.get("trace", ""),
    )
    return read, str(extra.get("seal", ""))


# -- attempts and outcomes


def _attempt_json(attempt: Attempt) -> dict[str, Json]:
    return {
        "signed_at": attempt.signed_at,
        "base_height": str(attempt.base_height),
        "valid_until": None if attempt.valid_until is None else str(attempt.valid_until),
        "terms": attempt.terms,
    }


def pack_attempt(attempt: Attempt) -> bytes:
    return b"%s %s\0%s" % (attempt.purpose.encode(), dumps(_attempt_json(attempt)), attempt.raw)


def unpack_attempt(name: str, blob: bytes, proof: bytes | None) -> Attempt:
    head, _, raw = blob.partition(b"\0")
    purpose, _, body = head.partition(b" ")
    nonce, _, hash = name.partition(":")
    return _build_attempt(int(nonce), hash, purpose.decode(), raw, loads(body), loads(proof) if proof else None)


def _build_attempt(nonce: int, hash: str, purpose: str, raw: bytes, body: Json, proof: Json) -> Attempt:
    until = body["valid_until"]
    return Attempt(
        nonce=nonce,
        hash=hash,
        raw=raw,
        purpose=Purpose(purpose),
        signed_at=body["signed_at"],
        base_height=int(body["base_height"]),
        valid_until=None if until is None else int(until),
        terms=body["terms"],
        proof=proof,
    )


def pack_outcome(outcome: Outcome) -> bytes:
    return dumps(_outcome_json(outcome))


def _outcome_json(outcome: Outcome) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "status": outcome.status,
        "tx_hash": outcome.tx_hash,
        "nonce": None if outcome.nonce is None else str(outcome.nonce),
        "result": outcome.result,
        "error": outcome.error,
    }
    if outcome.cost is not None:
        fields["cost"] = str(outcome.cost)
    if outcome.noop_cost:
        fields["noop_cost"] = str(outcome.noop_cost)
    return fields


def _outcome(body: Json) -> Outcome:
    return Outcome(
        status=Status(body["status"]),
        tx_hash=body["tx_hash"],
        nonce=None if body["nonce"] is None else int(body["nonce"]),
        result=body["result"],
        error=body["error"],
        cost=int(body["cost"]) if "cost" in body else None,
        noop_cost=int(body.get("noop_cost", 0)),
    )


# -- records


def record(id: IntentId, lane: str, fields: Fields, entry: Fields, *, whole: bool = False) -> Record:
    """What the record does not say, its entry does, while it is in the queue. `whole`: with the payload that a final
    record keeps for an archive."""
    status = Status(text(fields[b"s"]))
    attempts = (
        unpack_attempt(name[2:].decode(), blob, fields.get(b"d:" + name[2:]))
        for name, blob in fields.items()
        if name.startswith(b"a:")
    )
    # What was set aside left the queue, and took its payload with it; so did what ended and waits for an archive.
    payload = None if status.final and not whole else fields.get(b"p", entry.get(b"p"))
    read, seal = intent(id, {name: fields.get(name, entry.get(name, b"")) for name in (b"k", b"f", b"m")}, payload)
    position = text(fields[b"i"])
    created_at = int(fields[b"t"]) if b"t" in fields else place(position)[0]
    return Record(
        intent=read,
        lane=lane,
        life=text(fields[b"l"]),
        status=status,
        position=position,
        created_at=created_at,
        updated_at=int(fields.get(b"u", created_at)),
        attempts=_in_order(attempts),
        outcome=_outcome(loads(fields[b"o"])) if b"o" in fields else None,
        hold=loads(fields[b"h"]) if b"h" in fields else None,
        cancel_requested=b"c" in fields,
        directive=loads(fields[b"d"]) if b"d" in fields else None,
        resigns=int(fields.get(b"r", b"0")),
        seal="" if status.final else seal,
    )


def _in_order(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """By nonce, those of one nonce by the time of their signature: two workers' clocks never mix up two nonces."""
    return tuple(sorted(attempts, key=lambda a: (a.nonce, a.signed_at, a.hash)))


def pack_final(record: Record) -> bytes:
    """The record as its home keeps it: everything a retry is answered with, no raw bytes."""
    assert record.outcome is not None
    head, tail = pack_around(record)
    return b"%s%s%s%d}" % (head, _pack_within(record.outcome), tail, record.updated_at)


def pack_around(record: Record) -> tuple[bytes, bytes]:
    """The same without its outcome, which goes between the two, and without the time of its end and a closing brace,
    which follow. `settle` puts them together."""
    intent = record.intent
    head = {"kind": intent.kind, "more": more(intent).decode(), "at": record.created_at, "sid": record.position}
    tail = {
        "hold": record.hold,
        "cancel": record.cancel_requested,
        "resigns": record.resigns,
        "attempts": [[str(a.nonce), a.hash, a.purpose, _attempt_json(a), a.proof] for a in record.attempts],
    }
    return dumps(head)[:-1] + b',"outcome":', b"," + dumps(tail)[1:-1] + b',"up":'


def _pack_within(outcome: Outcome) -> bytes:
    try:
        return dumps([_outcome_json(outcome)])[1:-1]
    except InvalidInput:  # a result that an older release stored, too deep to be wrapped once more
        return pack_outcome(bounded(outcome))


def unpack_final(id: IntentId, fingerprint: str, life: str, lane: str, blob: bytes) -> Record:
    body = loads(blob)
    fields = {b"k": body["kind"].encode(), b"m": body["more"].encode(), b"f": fingerprint.encode()}
    outcome = _outcome(body["outcome"])
    return Record(
        intent=intent(id, fields, None)[0],
        lane=lane,
        life=life,
        status=outcome.status,
        position=body["sid"],
        created_at=body["at"],
        updated_at=body["up"],
        attempts=tuple(_build_attempt(int(n), h, p, b"", b, proof) for n, h, p, b, proof in body["attempts"]),
        outcome=outcome,
        hold=body["hold"],
        cancel_requested=body["cancel"],
        resigns=body["resigns"],
    )


# -- lanes and events


def pack_spec(spec: LaneSpec) -> bytes:
    return dumps({"pool": spec.pool, "weight": spec.weight, "limit": spec.queue_limit, "info": spec.info})


def lane(id: str, snapshot: Sequence[Any]) -> Lane | None:
    fields = pairs(snapshot[0])
    parked = b"state" not in fields
    if parked and b"parked" not in fields:
        return None
    spec = loads(fields[b"spec"])
    now = int(snapshot[6])
    first = text(snapshot[4])

    def number(name: bytes) -> int | None:
        return int(fields[name]) if name in fields else None

    state, reason = LaneState(text(fields.get(b"state", b"active"))), text(fields.get(b"reason"))
    cause, command = _stop(state, reason, fields)
    return Lane(
        spec=LaneSpec(id, spec["pool"], spec["weight"], spec["limit"], spec["info"], b"keyless" in fields),
        state=state,
        reason=reason,
        cause=cause,
        command=command,
        evidence=loads(fields[b"evidence"]) if b"evidence" in fields else {},
        owner=text(fields[b"owner"]),
        epoch=int(fields[b"epoch"]),
        lease_ms=max(0, int(fields.get(b"until", b"0")) - now) if fields[b"token"] else 0,
        cursor=number(b"cursor"),
        baseline=number(b"baseline"),
        landed=number(b"landed"),
        signed_upto=text(fields[b"upto"]),
        last_id=text(fields[b"last"]),
        depth=int(snapshot[1]),
        unfinished=int(snapshot[2]) + int(fields.get(b"signed", b"0")),
        unretired=int(snapshot[3]),
        oldest_ms=max(0, now - int(first.partition("-")[0])) if first else 0,
        history_id=text(fields[b"replid"]),
        found_history_id=text(snapshot[5]),
        asks=int(fields[b"asks"]),
        check=Check.parse(text(fields.get(b"check"))),
        archive=number(b"archive"),
        parked=parked,
        schema=int(fields[b"schema"]),
    )


def _stop(state: LaneState, reason: str, fields: Fields) -> tuple[StopCause | None, LaneCommand | None]:
    """Cause and command, if they belong to the state, reason and evidence that stand; else release 0.1.0 wrote those
    last, and its words tell."""
    stored, _, words = text(fields.get(b"stop")).partition(" ")
    content = b"\n".join((state.encode(), fields.get(b"reason", b""), fields.get(b"evidence", b"")))
    if stored != hashlib.sha1(content, usedforsecurity=False).hexdigest():
        return from_reason(state, reason)
    cause, _, command = words.partition(" ")
    kind = PauseCause if state is LaneState.PAUSED else QuarantineCause
    return (
        kind(cause) if cause in list(kind) else None,
        LaneCommand(command) if command in list(LaneCommand) else None,
    )


def revision(snapshot: Sequence[Any]) -> int:
    return int(pairs(snapshot[0]).get(b"rev", b"0"))


def events(lane: str, position: bytes, flat: Sequence[bytes]) -> Iterable[Event]:
    """The events of one entry: one in a lane of schema 1, later all of a step. The last has the entry's place."""
    fields, at = pairs(flat), place(text(position))
    lines = fields[b"b"].decode().split("\n") if b"b" in fields else [_event_line(fields)]
    for n, line in enumerate(lines, at[1] - len(lines) + 1):
        id, status, tx_hash, error = line.split("\t")
        where = place_text((at[0], n))
        yield Event(
            id=where,
            intent=IntentId.parse(id),
            lane=lane,
            status=Status(status),
            at=int(fields[b"t"]),
            tx_hash=tx_hash or None,
            error=error or None,
        )


def _event_line(fields: Fields) -> str:
    error = text(fields.get(b"e")).replace("\t", " ")
    return "\t".join((text(fields[b"i"]), text(fields[b"s"]), text(fields.get(b"h")), error))
