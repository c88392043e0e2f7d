"""What a decision about one intent is made from (`Policy`, `Observation`) and what it can be (`Step`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from txmanager.core.bounds import MAX_RESULT_BYTES
from txmanager.core.chain import Proof, SendReply, Sighting
from txmanager.core.funds import Finding
from txmanager.core.kills import Doom
from txmanager.core.models import Attempt, Json, Outcome
from txmanager.core.stops import PauseCause, QuarantineCause
from txmanager.core.values import value


@value(frozen=True, slots=True)
class Policy:
    """How patient a lane is. Times are milliseconds."""

    window: int = 16
    """How many attempts may be unincluded at once; 1 also waits for finality and so keeps execution order."""
    max_window: int = 0
    """How far that may grow while nodes take more; not at all if it is not above `window`, or if `window` is 1."""
    max_inflight: int = 256
    """How many intents may have attempts and no end."""
    include_within_ms: int = 5_000
    """An attempt not included by then is sent again with validation, to learn why."""
    replace_after_ms: int = 36_000
    """EVM: the lowest nonce that is not included by then is offered more."""
    cancel_after_ms: int | None = None
    """EVM: the lowest nonce that is not included by then is ended by a no-op. None: nobody asked for that."""
    fill_after_ms: int = 20_000
    """EVM: a nonce below the cursor that belongs to nobody for so long is used up by a no-op."""
    hold_after_ms: int = 24 * 3600 * 1000
    """An attempt neither landed nor proven dead by then needs an operator."""
    max_resigns: int = 3
    max_result_bytes: int = MAX_RESULT_BYTES
    """What is kept of a transaction's result and error, in bytes."""
    keep_final_ms: int = 3_600_000
    """EVM: for how long signed bytes are kept after they were final, to send them again after a deep rollback."""
    keep_final_bytes: int = 8 * 1024 * 1024
    """How much of that is kept for one lane."""
    reserve: int | None = None
    """What the lane's account must have, or nothing is signed. None: `max_deposit` and the fee of the intent."""
    max_deposit: int | None = None
    """What one intent may move: a lane that cannot pay that much is poor, and fails nobody."""


@value(frozen=True, slots=True)
class Observation:
    """What was seen of one intent and of its lane since the last decision."""

    sightings: Mapping[str, Sighting] = field(default_factory=dict)
    """By attempt name; a missing one was not looked up."""
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    """Fresh proofs of death, by attempt name."""
    reply: SendReply | None = None
    """The newest answer to a send of a live attempt."""
    sent_at: int = 0
    overtaken: bool = False
    """A higher nonce of the lane was seen on chain."""
    clear: bool = False
    """Every other nonce of the lane is included, dead or held: a re-sign can overtake nobody."""
    idle: bool = False
    """The lane has no other attempt that may still land, and nothing that is about to be sent would."""
    unproven: bool = False
    """A proof of death was asked for, and there is none."""
    killable: bool = True
    """Whether the lane's key can sign a no-op at all."""
    lowest: bool = False
    """EVM: no lower nonce of the lane is open, so it is the price of this one that all others wait for."""
    lowest_since: int = 0
    """EVM: when it became the lowest; before that it was not its price that kept it waiting."""
    priced_out: bool = False
    """A no-op cannot be paid, or (EVM) a better price would have passed the cap; the next try comes later."""
    means: Finding | None = None
    """After a refusal for want of funds: what the whole balance says to it; None when nobody knows."""


# -- steps


@value(frozen=True, slots=True)
class Wait:
    reason: str


@value(frozen=True, slots=True)
class Settle:
    """Store the outcome; `deaths` proves that an end without effect stays one."""

    outcome: Outcome
    reason: str
    deaths: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)


@value(frozen=True, slots=True)
class Prove:
    """Ask the chain for a proof of death of every live attempt."""

    reason: str


@value(frozen=True, slots=True)
class Probe:
    """Send the same bytes again with validation."""

    attempt: Attempt
    reason: str


@value(frozen=True, slots=True)
class Resign:
    """Sign the intent again at a new nonce: every earlier attempt is proven dead."""

    deaths: Mapping[str, Mapping[str, Json]]
    counted: bool
    reason: str


@value(frozen=True, slots=True)
class Kill:
    """Record and send a no-op that makes the intent's death provable, and remembers why."""

    doom: Doom
    reason: str


@value(frozen=True, slots=True)
class Replace:
    """EVM: record and send the same bytes at a better price; of a no-op, when there is one."""

    over: Attempt
    """The newest attempt at the nonce: once there is a newer one, this was done."""
    reason: str


@value(frozen=True, slots=True)
class Hold:
    reason: str
    evidence: Mapping[str, Json]


@value(frozen=True, slots=True)
class Pause:
    cause: PauseCause
    evidence: Mapping[str, Json]


@value(frozen=True, slots=True)
class Quarantine:
    cause: QuarantineCause
    evidence: Mapping[str, Json]


Step = Wait | Settle | Prove | Probe | Resign | Kill | Replace | Hold | Pause | Quarantine
