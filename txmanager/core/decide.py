"""What to do next with one intent that has attempts: a pure, total function from facts to one step.

The worker gathers facts (`Observation`), asks `decide`, and carries the step out. No arm guesses: only a hash seen
final settles `done`, only a proof of death lets anything be signed again or end without an effect, and everything
else waits, asks the chain, or asks an operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from txmanager.core.bounds import MAX_RESULT_BYTES
from txmanager.core.chain import UNSEEN, Proof, SendReply, Sighting, Traits, Verdict
from txmanager.core.funds import Finding, Word
from txmanager.core.kills import OVERDUE_WORDS, Doom, KillCause, doom_of
from txmanager.core.models import Attempt, Json, Outcome, Purpose, Record, failure
from txmanager.core.states import Status
from txmanager.core.stops import PauseCause, QuarantineCause
from txmanager.core.values import value


@value(frozen=True, slots=True)
class Policy:
    """How patient a lane is. Times are milliseconds."""

    window: int = 16
    """How many attempts may be unincluded at once; 1 also waits for finality and so keeps execution order."""
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

_INNOCENT = ("overtaken", "expired")
"""Causes of death that are nobody's fault and do not use up the re-sign limit."""
_TOO_DEAR = (Verdict.FEE_CAP_EXCEEDED, Verdict.INSUFFICIENT_FUNDS)
_TOO_CHEAP = (Verdict.UNDERPRICED, Verdict.REPLACEMENT_UNDERPRICED, Verdict.INVALID_FEE)
_CALLERS = (
    Verdict.INSUFFICIENT_FUNDS,
    Verdict.UNDERPRICED,
    Verdict.REPLACEMENT_UNDERPRICED,
    Verdict.INVALID_FEE,
    Verdict.FEE_CAP_EXCEEDED,
    Verdict.PERMANENT,
)
"""What only whoever holds the key can cure, by other bytes at the same number or by funds."""
_PATIENCES = 4
"""How often a node may refuse, a time for inclusion apart, what the balance could pay, before the lane stops for it."""
REPRICE_EVERY_MS = 1_000
"""A node that calls one price after the other too low is not chased faster than this."""


def decide(record: Record, seen: Observation, policy: Policy, traits: Traits, now: int) -> Step:
    effects = record.effects
    if not effects or record.status.final:
        return Wait("nothing of it is in flight")
    for attempt in effects if seen.sightings else ():
        sighting = seen.sightings.get(attempt.name)
        if sighting is not None and sighting.where == "final" and sighting.outcome is not None:
            outcome = sighting.outcome
            if outcome.tx_hash != attempt.hash or outcome.nonce != attempt.nonce:
                outcome = replace(outcome, tx_hash=attempt.hash, nonce=attempt.nonce)
            return Settle(outcome, "a hash of the intent is final")
    if seen.sightings and (hold := _disputed(record, seen, policy, now)) is not None:
        return hold
    if seen.sightings and any(_on_chain(a, seen) for a in effects):
        return Wait("included, not final yet")
    deaths: dict[str, Mapping[str, Json]] = {}
    if seen.proofs:
        deaths = {a.name: _evidence(seen.proofs[a.name]) for a in record.live if a.name in seen.proofs}
    if record.status is Status.HELD and record.directive and record.directive.get("force") is True:
        deaths |= {a.name: _forced(record.directive) for a in effects if not a.dead and a.name not in deaths}
    alive = [a for a in effects if not a.dead and a.name not in deaths]
    given = effects[0].purpose is Purpose.GIVEN
    if alive:
        if given:
            return _decide_given(record, alive[0], seen, policy, now)
        return _decide_alive(record, alive, seen, policy, traits, now)
    return _end_given(record, deaths) if given else _decide_dead(record, seen, policy, deaths)


def _disputed(record: Record, seen: Observation, policy: Policy, now: int) -> Hold | None:
    """Nodes that contradict each other, or too few of them for too long: a person decides whom to believe. It is looked
    up all the same, and settles by itself once they agree."""
    if record.status is Status.HELD:
        return None
    for attempt in record.effects:
        sighting = seen.sightings.get(attempt.name)
        if sighting is None or sighting.doubt is None:
            continue
        evidence = {"attempt": attempt.name, "about": sighting.doubt.about, "nodes": dict(sighting.doubt.answers)}
        if sighting.doubt.conflict:
            return Hold("nodes_disagree", evidence)
        if now - attempt.signed_at >= policy.hold_after_ms:
            return Hold("not_confirmed", evidence)
    return None


def _decide_dead(record: Record, seen: Observation, policy: Policy, deaths: Mapping[str, Mapping[str, Json]]) -> Step:
    """Nothing of the intent can land any more: end it as it was asked to end, or sign it again."""
    if record.cancel_requested:
        return Settle(Outcome(Status.CANCELLED), "cancelled, and proven dead", deaths)
    if (doom := _doomed(record, seen)) is not None:
        if doom.cause is KillCause.OVERDUE:
            error = failure("not_included", f"{doom.why}; it was cancelled by a no-op at its nonce", new_key_helps=True)
            return Settle(Outcome(Status.CANCELLED, error=error), "cancelled for being late, and proven dead", deaths)
        code = "insufficient_funds" if doom.cause is KillCause.FUNDS else "rejected"
        error = failure(code, doom.why, new_key_helps=True)
        return Settle(Outcome(Status.FAILED, error=error), "rejected, and proven dead", deaths)
    asked = record.status is Status.HELD and _verb(record) == "resign"
    if record.status is Status.HELD and not asked:
        return Wait("held: an operator decides")
    counted = any(death["cause"] not in _INNOCENT for death in deaths.values())
    if record.resigns + counted > policy.max_resigns and not asked:
        return Hold("resign_limit", {"resigns": record.resigns, "deaths": dict(deaths)})
    if not seen.clear:
        return Wait("dead; signed again when the lane's other nonces are included or dead")
    return Resign(deaths, counted, "every attempt is proven dead")


def _decide_alive(
    record: Record, alive: list[Attempt], seen: Observation, policy: Policy, traits: Traits, now: int
) -> Step:
    """Some bytes may still land: look closer, send them again, or make their death provable."""
    noops = [a for a in record.live if a.purpose is Purpose.NOOP and a.name not in seen.proofs]
    verdict, message = (seen.reply.verdict, seen.reply.message) if seen.reply else (None, "")
    if record.status is not Status.HELD and now - max(a.signed_at for a in alive) >= policy.hold_after_ms:
        if not seen.unproven:
            return Prove("not seen for long: it may have expired")
        return Hold("no_proof", {"attempts": [a.name for a in alive], "message": "neither landed nor provably dead"})
    if any(_on_chain(a, seen) for a in noops) or (seen.overtaken and traits.overtaking_kills):
        return Prove("a higher nonce is on chain")
    if verdict is not None and not verdict.sent:
        if verdict is Verdict.INSUFFICIENT_FUNDS and (stop := _poor(alive, seen, policy, now)) is not None:
            return stop
        if verdict is Verdict.KEY_MISSING:
            return Quarantine(QuarantineCause.KEY_MISSING, {"message": message})
        if verdict in (Verdict.NONCE_TOO_LOW, Verdict.EXPIRED):
            return Prove(f"the node says {verdict}")
    doom = _doomed(record, seen)
    asked = record.cancel_requested or doom is not None
    if asked and not noops:
        if not seen.killable:
            return Prove("its key signs no no-op: expiry or the next intent that lands ends it")
        if not seen.priced_out and (traits.replaces or (seen.clear and seen.idle)):
            return Kill(doom or Doom(KillCause.CANCELLED, "cancelled"), "a no-op makes its death provable")
    if not (asked or noops or seen.priced_out) and (late := _overdue(record, alive, seen, policy, now)):
        return Kill(late, "a no-op frees the lane from it")
    if traits.replaces and (reason := _too_cheap(record, noops or alive, seen, policy, now)):
        return Replace(max(noops or alive, key=lambda a: a.signed_at), reason)
    # Also what waits for the next intent to kill it: that one may never come, and the bytes may have expired.
    # A send that lies ahead was stamped before the clock was set back: its age is not known, so ask.
    if not 0 <= now - seen.sent_at < policy.include_within_ms:
        return Probe(_probed(noops or alive, verdict, traits), "not included in time")
    if asked and not noops:
        return Wait("killed by the next intent that lands")
    return Wait("sent, not seen yet")


def _decide_given(record: Record, attempt: Attempt, seen: Observation, policy: Policy, now: int) -> Step:
    """The caller's own bytes: sent again and looked up; a problem is told, because only the caller can sign others."""
    held = record.status is Status.HELD
    verdict, message = (seen.reply.verdict, seen.reply.message) if seen.reply else (None, "")
    if not held and now - attempt.signed_at >= policy.hold_after_ms:
        if not seen.unproven:
            return Prove("not seen for long: its number may be used")
        return Hold("no_proof", {"attempts": [attempt.name], "message": "neither landed nor provably dead"})
    if verdict is Verdict.NONCE_TOO_LOW:
        return Prove("the node says nonce_too_low")
    if verdict is not None and verdict in _CALLERS and not held:
        return Hold(verdict.value, {"nonce": str(attempt.nonce), "hash": attempt.hash, "message": message})
    if not 0 <= now - seen.sent_at < policy.include_within_ms:
        return Probe(attempt, "not included in time")
    return Wait("sent, not seen yet")


def _end_given(record: Record, deaths: Mapping[str, Mapping[str, Json]]) -> Step:
    """Other bytes used the number, which proves that these never will."""
    if record.cancel_requested:
        return Settle(Outcome(Status.CANCELLED), "cancelled, and proven dead", deaths)
    proofs = [*deaths.values(), *(a.proof for a in record.attempts if a.proof)]
    rival = next((proof["landed"] for proof in proofs if "landed" in proof), None)
    code, by = ("nonce_used", "another transaction") if rival is None else ("replaced", str(rival))
    message = f"nonce {record.attempts[0].nonce} was used by {by}; nothing was spent on this one"
    return Settle(Outcome(Status.FAILED, error=failure(code, message, new_key_helps=True)), code, deaths)


def _poor(alive: list[Attempt], seen: Observation, policy: Policy, now: int) -> Pause | Wait | None:
    """Whether a refusal for want of funds stops the lane. It may be for now: nodes count what else is on its way, and
    other lanes may spend from the same account. So only the lowest nonce tells, and only against the whole balance."""
    if not seen.lowest or seen.reply is None:
        return None
    if seen.means is None:
        return Wait("refused for want of funds; the balance is not known yet")
    patient = now - max(a.signed_at for a in alive) < _PATIENCES * policy.include_within_ms
    if seen.means.word is Word.FAIL or (seen.means.word is not Word.PAUSE and patient):
        return None
    purse = seen.means.purse
    told = {"needs": str(seen.means.needs), "balance": str(purse.balance), "purse": purse.name}
    return Pause(PauseCause.FUNDS, {"message": seen.reply.message, **told})


def _asks_too_much(seen: Observation) -> bool:
    """The lane has its reserve and not this much: the intent ends alone, and its number is used up."""
    refused = seen.reply is not None and seen.reply.verdict is Verdict.INSUFFICIENT_FUNDS
    return refused and seen.lowest and seen.means is not None and seen.means.word is Word.FAIL


def _overdue(record: Record, alive: list[Attempt], seen: Observation, policy: Policy, now: int) -> Doom | None:
    """Why the lowest nonce is given up, where the policy says so. Waiting for a lower one does not count."""
    limit = policy.cancel_after_ms
    if limit is None or not seen.lowest or record.status is Status.HELD:
        return None
    since = max(seen.lowest_since, min(a.signed_at for a in alive))
    return Doom(KillCause.OVERDUE, f"{OVERDUE_WORDS} {limit // 1000} s") if now - since >= limit else None


def _too_cheap(record: Record, rivals: list[Attempt], seen: Observation, policy: Policy, now: int) -> str | None:
    """Why the nonce needs a better price now, if it does. Only the lowest nonce is bumped for being slow."""
    if record.status is Status.HELD or seen.priced_out:
        return None
    age = now - max(a.signed_at for a in rivals)
    verdict = seen.reply.verdict if seen.reply else None
    if verdict in _TOO_CHEAP:
        return f"the node says {verdict}" if age >= REPRICE_EVERY_MS else None
    sent = verdict is None or verdict.sent
    late = min(age, now - seen.lowest_since) >= policy.replace_after_ms
    return "not included at its price" if seen.lowest and sent and late else None


def _probed(rivals: list[Attempt], verdict: Verdict | None, traits: Traits) -> Attempt:
    """Of several attempts at one nonce the dearest; the one before it when a node's own cap, or the balance, refuses
    that."""
    if not traits.replaces:
        return rivals[0]
    by_age = sorted(rivals, key=lambda a: a.signed_at)
    return by_age[-2] if verdict in _TOO_DEAR and len(by_age) > 1 else by_age[-1]


def _on_chain(attempt: Attempt, seen: Observation) -> bool:
    return seen.sightings.get(attempt.name, UNSEEN).where in ("included", "final")


def _doomed(record: Record, seen: Observation) -> Doom | None:
    """Why the intent must end without an effect, if it must; a recorded no-op remembers it through a crash."""
    if seen.reply is not None and seen.reply.verdict is Verdict.PERMANENT:
        return Doom(KillCause.REJECTED, seen.reply.message)
    if _asks_too_much(seen):
        assert seen.means is not None
        return Doom(KillCause.FUNDS, seen.means.message)
    if _verb(record) in ("kill", "fail"):
        return Doom(KillCause.OPERATOR, "ended by an operator")
    for attempt in record.attempts:
        if attempt.purpose is Purpose.NOOP:
            return doom_of(attempt.terms)
    return None


def _verb(record: Record) -> str:
    return str(record.directive.get("verb", "")) if record.directive else ""


def _forced(directive: Mapping[str, Json]) -> dict[str, Json]:
    """What stands in the record for ever when an operator overruled the missing proof."""
    return {"cause": "forced", "by": directive.get("by", ""), "risk": "the bytes may still land: an effect twice"}


def _evidence(proof: Proof) -> dict[str, Json]:
    return {"cause": proof.cause, **proof.evidence}
