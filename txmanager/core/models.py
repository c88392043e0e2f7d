"""The nouns: intent, lane, attempt, outcome, record. Frozen, free of I/O, the same words as in the ledgers and in JSON.

Nonces, heights and money are Python ints here and decimal strings in the ledger: no float ever touches them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from txmanager.core.alerts import Check
from txmanager.core.errors import InvalidInput, InvalidKey
from txmanager.core.fingerprint import fingerprint
from txmanager.core.positions import START
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand, QuarantineCause, StopCause
from txmanager.core.values import value

HOMES = 1024
INTENT_VERSION = 1

_VISIBLE = re.compile(r"[\x21-\x7e]{1,255}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
_LANE = re.compile(r"[a-z]+(:[A-Za-z0-9_.-]+)+\Z")

Json = Any
"""A JSON value; the edges validate it, the core only carries it."""


def check_key(key: str) -> str:
    if not isinstance(key, str) or not _VISIBLE.match(key):
        raise InvalidKey(
            "idempotency_key",
            "must be 1 to 255 visible ASCII characters without spaces (for example a UUID)",
        )
    return key


def is_name(text: str) -> bool:
    return _NAME.match(text) is not None


def check_name(field_name: str, name: str) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidInput(field_name, "must be 1 to 63 of A-Z a-z 0-9 _ . - and start with a letter or a digit")
    return name


def check_lane(lane: str) -> str:
    if not isinstance(lane, str) or len(lane) > 255 or not _LANE.match(lane):
        raise InvalidInput("lane", "must look like CHAIN:NETWORK:KEY; see GET /v1/lanes")
    return lane


@value(frozen=True, slots=True, order=True)
class IntentId:
    """The tenant that owns the key. One idempotency key means different intents to different tenants and pools."""

    pool: str
    key: str
    tenant: str = "default"
    text: str = field(init=False, repr=False, compare=False, default="")
    """Unambiguous because neither tenant nor pool may contain a slash; made once, because every step names it."""

    def __post_init__(self) -> None:
        self.text = f"{self.tenant}/{self.pool}/{self.key}"  # type: ignore[misc]  # see `value`

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> IntentId:
        tenant, pool, key = text.split("/", 2)
        return cls(pool=pool, key=key, tenant=tenant)

    @property
    def home(self) -> int:
        """The slot of this key, for ever: it must not depend on the pool's lanes."""
        digest = hashlib.blake2b(self.text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % HOMES


def intent_id(key: str, pool: str, tenant: str = "default") -> IntentId:
    return IntentId(pool=check_name("pool", pool), key=check_key(key), tenant=check_name("tenant", tenant))


@value(frozen=True, slots=True)
class Intent:
    """What a caller wants, exactly as accepted."""

    id: IntentId
    kind: str
    payload: Mapping[str, Json]
    fingerprint: str
    partition_key: str
    max_age_s: int | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    version: int = INTENT_VERSION
    limits: Mapping[str, Json] = field(default_factory=dict)
    """What whoever accepted it allows at most, whatever the rules are later; no part of the fingerprint."""
    token: str = ""
    """The name of the API token that asked for it; no part of the fingerprint."""
    trace: str = ""
    """The caller's `traceparent`, where it traces its requests; no part of the fingerprint."""


def new_intent(
    *,
    key: str,
    pool: str,
    kind: str,
    payload: Mapping[str, Json],
    tenant: str = "default",
    partition_key: str | None = None,
    max_age_s: int | None = None,
    metadata: Mapping[str, Json] | None = None,
    limits: Mapping[str, Json] | None = None,
    token: str = "",
    trace: str = "",
) -> Intent:
    """Check the caller's words and take their fingerprint. The partition key falls back to what the payload creates."""
    created = payload.get("new_account_id")
    if partition_key is None:
        partition_key = created if isinstance(created, str) else key
    if max_age_s is not None and (isinstance(max_age_s, bool) or max_age_s < 1):
        raise InvalidInput("max_age_s", "must be a whole number of seconds, at least 1")
    return Intent(
        id=intent_id(key, pool, tenant),
        kind=check_name("kind", kind),
        payload=payload,
        fingerprint=fingerprint(kind, payload),
        partition_key=partition_key,
        max_age_s=max_age_s,
        metadata=metadata or {},
        limits=limits or {},
        token=token,
        trace=trace,
    )


class Purpose(StrEnum):
    """Why an attempt was signed; the ledger checks each differently."""

    FIRST = "first"
    """The intent's first bytes: in the order of acceptance, from the cursor."""

    RESIGN = "resign"
    """New bytes at a new nonce, because every earlier one is proven dead."""

    REPLACE = "replace"
    """EVM: same nonce, better fee; any of the nonce's hashes may land."""

    KEYLESS = "given"
    """EVM: bytes that the caller signed, at a number it had reserved; the only purpose on a keyless lane."""

    NOOP = "noop"
    """Bytes that do nothing but use up a nonce, kept on the record of the intent they kill."""


_NOOP = Purpose.NOOP
"""Every pass over a lane compares with it, and reading a member off its enumeration is slow before Python 3.12."""


@value(frozen=True, slots=True)
class Attempt:
    """One signed transaction. Written ahead before it is sent; `proof` is set once it can never land."""

    nonce: int
    hash: str
    raw: bytes
    purpose: Purpose
    signed_at: int
    base_height: int = 0
    valid_until: int | None = None
    terms: Mapping[str, Json] = field(default_factory=dict)
    proof: Mapping[str, Json] | None = None
    name: str = field(init=False, repr=False, compare=False, default="")
    """The natural identity a replay is recognised by; made once, because every pass over a lane asks for it."""

    def __post_init__(self) -> None:
        self.name = f"{self.nonce}:{self.hash}"  # type: ignore[misc]

    @property
    def dead(self) -> bool:
        return self.proof is not None

    def with_proof(self, proof: Mapping[str, Json]) -> Attempt:
        return replace(self, proof=proof)


@value(frozen=True, slots=True)
class Outcome:
    """The final result, from chain data only, so that two observers build the same."""

    status: Status
    tx_hash: str | None = None
    nonce: int | None = None
    result: Mapping[str, Json] | None = None
    error: Mapping[str, Json] | None = None
    cost: int | None = None
    """What left the lane for it, in the chain's smallest unit: all that landed, fees included. None where the chain's
    adapter does not say."""
    noop_cost: int = 0
    """The part of `cost` that its no-ops took."""


def failure(code: str, message: str, *, new_key_helps: bool, spent: str = "0", **more: Json) -> dict[str, Json]:
    """The error of a failed record: why, what was spent, and whether a new key can help."""
    return {"code": code, "message": message, "new_key_helps": new_key_helps, "spent": spent, **more}


@value(frozen=True, slots=True)
class Record:
    """Everything the ledger knows of one intent. `intent.payload` is empty once the record is final."""

    intent: Intent
    lane: str
    life: str
    status: Status
    position: str
    created_at: int
    updated_at: int
    attempts: tuple[Attempt, ...] = ()
    outcome: Outcome | None = None
    hold: Mapping[str, Json] | None = None
    cancel_requested: bool = False
    directive: Mapping[str, Json] | None = None
    resigns: int = 0
    seal: str = ""
    """Made by whoever accepted it, over what it stands for; empty on final records and where nobody seals."""

    @property
    def id(self) -> IntentId:
        return self.intent.id

    @property
    def live(self) -> tuple[Attempt, ...]:
        """Attempts that may still land, no-ops included."""
        return tuple([a for a in self.attempts if a.proof is None])

    @property
    def effects(self) -> tuple[Attempt, ...]:
        """Attempts whose landing is the intent's effect: all but the no-ops."""
        return tuple([a for a in self.attempts if a.purpose is not _NOOP])

    def ended(self, outcome: Outcome, deaths: Mapping[str, Mapping[str, Json]]) -> Record:
        """As it is kept, but for the time of its end: final, without payload and directive. Spelled out: every intent
        ends once."""
        intent, attempts = self.intent, self.attempts
        if deaths:
            attempts = tuple([a.with_proof(deaths[a.name]) if a.name in deaths else a for a in attempts])
        bare = Intent(
            id=intent.id,
            kind=intent.kind,
            payload={},
            fingerprint=intent.fingerprint,
            partition_key=intent.partition_key,
            max_age_s=intent.max_age_s,
            metadata=intent.metadata,
            version=intent.version,
            limits=intent.limits,
            token=intent.token,
            trace=intent.trace,
        )
        return Record(
            intent=bare,
            lane=self.lane,
            life=self.life,
            status=outcome.status,
            position=self.position,
            created_at=self.created_at,
            updated_at=self.updated_at,
            attempts=attempts,
            outcome=outcome,
            hold=self.hold,
            cancel_requested=self.cancel_requested,
            resigns=self.resigns,
        )


@value(frozen=True, slots=True)
class Fence:
    """Proof of ownership. The epoch grows at each take-over; the token makes an epoch a failover forgot harmless."""

    lane: str
    owner: str
    epoch: int
    token: str


@value(frozen=True, slots=True)
class LaneSpec:
    """What a worker publishes of a lane: public data only."""

    id: str
    pool: str
    weight: int = 1
    queue_limit: int = 1_000_000
    info: Mapping[str, Json] = field(default_factory=dict)
    keyless: bool = False
    """The caller holds the key: numbers go out by reservation, signed bytes come in, nothing is signed here."""


@value(frozen=True, slots=True)
class Lane:
    """A lane as the ledger holds it."""

    spec: LaneSpec
    state: LaneState
    reason: str = ""
    """For people: nothing acts on it."""
    cause: StopCause | None = None
    """Why it is paused or quarantined; None while it works, and for what only a newer release knows."""
    command: LaneCommand | None = None
    """What an operator asks the owner of a paused lane to do."""
    evidence: Mapping[str, Json] = field(default_factory=dict)
    owner: str = ""
    epoch: int = 0
    lease_ms: int = 0
    """Milliseconds left of the owner's lease, 0 when there is none."""
    cursor: int | None = None
    """The next nonce to sign with; None until the first owner read the chain."""
    baseline: int | None = None
    """The cursor as it was read from the chain, at creation or by an operator."""
    landed: int | None = None
    """The highest nonce of ours seen final, no-ops included."""
    signed_upto: str = START
    """Position of the last entry that got its first attempt."""
    last_id: str = START
    """Position of the newest entry ever appended."""
    depth: int = 0
    """Entries in the queue: queued, inflight and held."""
    unfinished: int = 0
    unretired: int = 0
    oldest_ms: int = 0
    """Age of the oldest entry of the queue."""
    history_id: str = ""
    """Which history of the store the lane was last written to: a store that lost writes goes on with another one."""
    found_history_id: str = ""
    asks: int = 0
    """Counts operator requests; a change tells the owner to read its unfinished records again."""
    check: Check = field(default_factory=Check)
    """The monitor's newest request to the owner."""
    archive: int | None = None
    """How many final records wait for an archive at most; None where there is none."""
    parked: bool = False
    """Keyless and idle: no worker serves it and the registry does not list it, but its numbers stand. `register` brings
    it back."""
    schema: int = 1
    """Which formats its writers may use (`core/ledger.py`)."""

    @property
    def distrusts_signer(self) -> bool:
        """Its signer gave a wrong signature, and no right one since."""
        return self.cause is QuarantineCause.BAD_SIGNATURE or self.command is LaneCommand.TRIAL

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def keyless(self) -> bool:
        return self.spec.keyless

    @property
    def moved(self) -> bool:
        """The server is not (or not provably) the one this lane was last written to."""
        return self.history_id != self.found_history_id


@value(frozen=True, slots=True)
class Event:
    """One transition, appended by the same atomic step that made it."""

    id: str
    intent: IntentId
    lane: str
    status: Status
    at: int
    tx_hash: str | None = None
    error: str | None = None
