"""Between models and what the objects store. They keep texts and bytes that only we read; nonces are decimal texts."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.core.alerts import Check
from txmanager.core.ledger import SCHEMA, Taken
from txmanager.core.models import Attempt, Event, Fence, IntentId, Json, Lane, LaneSpec, Record
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause
from txmanager.ledger.redis.codec import dumps, entry, loads, pack_attempt, record, unpack_attempt, unpack_final

Row = Mapping[str, Any]


def text(value: Json, field: str = "payload") -> str:
    """JSON as a text that no object looks into: its numbers stay as they are."""
    return dumps(value, field).decode()


def read(stored: str) -> Json:
    return loads(stored.encode())


def number(value: int | None) -> str | None:
    return None if value is None else str(value)


def count(value: str | None) -> int | None:
    return None if value is None else int(value)


def pack_fence(fence: Fence) -> Row:
    return {"epoch": fence.epoch, "token": fence.token}


def pack_signed(attempt: Attempt) -> Row:
    return {
        "nonce": str(attempt.nonce),
        "hash": attempt.hash,
        "purpose": attempt.purpose.value,
        "blob": b64encode(pack_attempt(attempt)).decode(),
    }


def unpack_signed(row: Row) -> Attempt:
    return unpack_attempt(f"{row['nonce']}:{row['hash']}", b64decode(row["blob"]), None)


def pack_deaths(deaths: Mapping[str, Mapping[str, Json]]) -> Row:
    return {name: text(proof) for name, proof in deaths.items()}


def unpack_record(lane: str, row: Row, *, whole: bool = False) -> Record:
    """By the names that records have in Redis, so that one reader reads both."""
    values = {
        "s": row["status"],
        "l": row["life"],
        "i": row["position"],
        "t": str(row["created"]),
        "u": str(row["updated"]),
        "k": row["kind"],
        "f": row["fingerprint"],
        "m": row["more"],
        "o": row["outcome"],
        "h": row["hold"],
        "c": "1" if row["cancel_requested"] else None,
        "d": row["directive"],
        "r": str(row["resigns"]),
    }
    fields = {name.encode(): value.encode() for name, value in values.items() if value is not None}
    for attempt in row["attempts"]:
        name = f"{attempt['nonce']}:{attempt['hash']}".encode()
        fields[b"a:" + name] = b64decode(attempt["blob"])
        if attempt["proof"] is not None:
            fields[b"d:" + name] = attempt["proof"].encode()
    payload = row["payload"]
    entry = {} if payload is None else {b"p": payload.encode()}
    return record(IntentId.parse(row["id"]), lane, fields, entry, whole=whole)


def by_nonce(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=lambda r: min(a.nonce for a in r.attempts))


def in_order(attempts: Sequence[Attempt]) -> list[Attempt]:
    return sorted(attempts, key=lambda a: (a.nonce, a.signed_at, a.hash))


def unpack_kept(id: IntentId, row: Row) -> Record:
    """A final record as its home keeps it."""
    return unpack_final(id, row["fingerprint"], row["life"], row["lane"], row["record"].encode())


def unpack_taken(row: Row) -> Taken:
    values = [row[name].encode() for name in ("id", "life", "fingerprint", "kind", "more", "payload")]
    return entry(row["position"].encode(), [part for value in values for part in (b"", value)])


def unpack_lane(row: Row) -> Lane:
    state = LaneState(row["state"])
    causes = PauseCause if state is LaneState.PAUSED else QuarantineCause
    cause, command = row["cause"], row["command"]
    return Lane(
        spec=LaneSpec(
            row["id"], row["pool"], row["weight"], row["queue_limit"], read(row["info"]), bool(row["keyless"])
        ),
        state=state,
        reason=row["reason"],
        cause=causes(cause) if cause in list(causes) else None,
        command=LaneCommand(command) if command in list(LaneCommand) else None,
        evidence=read(row["evidence"]),
        owner=row["owner"],
        epoch=row["epoch"],
        lease_ms=row["lease_ms"],
        cursor=count(row["cursor"]),
        baseline=count(row["baseline"]),
        landed=count(row["landed"]),
        signed_upto=row["signed_upto"],
        last_id=row["last_id"],
        depth=row["depth"],
        unfinished=row["unfinished"],
        unretired=row["unretired"],
        oldest_ms=row["oldest_ms"],
        history_id=row["history_id"],
        found_history_id=row["found_history_id"],
        asks=row["asks"],
        check=Check.parse(row["asked"]),
        archive=row["archive"],
        parked=bool(row["parked"]),
        schema=SCHEMA,
    )


def unpack_event(lane: str, row: Row) -> Event:
    intent, status = IntentId.parse(row["id"]), Status(row["status"])
    return Event(row["position"], intent, lane, status, row["at"], row["tx_hash"], row["error"])
