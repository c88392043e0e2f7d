"""What to do next with one intent that has attempts: a pure, total function from facts to one step.

The worker gathers facts (`Observation`), asks `decide`, and carries the step out. No arm guesses: only a hash seen
final settles `done`, only a proof of death lets anything be signed again or end without an effect, and everything
else waits, asks the chain, or asks an operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from txmanager.core.alive import Alive, decide_alive, on_chain
from txmanager.core.chain import UNSEEN, Proof, Traits, Verdict
from txmanager.core.funds import Word
from txmanager.core.kills import Doom, KillCause, doom_of
from txmanager.core.models import Attempt, Json, Outcome, Purpose, Record, failure
from txmanager.core.states import Status
from txmanager.core.steps import (
    Hold,
    Kill,
    Observation,
    Pause,
    Policy,
    Probe,
    Prove,
    Quarantine,
    Replace,
    Resign,
    Settle,
    Step,
    Wait,
)

__all__ = [
    "Hold",
    "Kill",
    "Observation",
    "Pause",
    "Policy",
    "Probe",
    "Prove",
    "Quarantine",
    "Replace",
    "Resign",
    "Settle",
    "Step",
    "Wait",
    "decide",
]

_INNOCENT = ("overtaken", "expired")
"""Causes of death that are nobody's fault and do not use up the re-sign limit."""
_NOOP_PATIENCES = 4
"""How many times for inclusion an end waits for its no-op to be final, so that its cost is known."""
_CALLERS = (
    Verdict.INSUFFICIENT_FUNDS,
    Verdict.UNDERPRICED,
    Verdict.REPLACEMENT_UNDERPRICED,
    Verdict.INVALID_FEE,
    Verdict.FEE_CAP_EXCEEDED,
    Verdict.PERMANENT,
)
"""What only whoever holds the key can cure, by other bytes at the same number or by funds."""


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
            if len(effects) < len(record.attempts) and outcome.cost is not None:
                taken = _noop_cost(record, seen, attempt.nonce)
                if taken is None and _awaited(record, seen, policy, now):
                    return Wait("final; its no-op may still land, and is part of what it cost")
                cost = None if taken is None else outcome.cost + taken
                outcome = replace(outcome, cost=cost, noop_cost=taken or 0)
            return Settle(outcome, "a hash of the intent is final")
    if seen.sightings and (hold := _disputed(record, seen, policy, now)) is not None:
        return hold
    if seen.sightings and any(on_chain(a, seen) for a in effects):
        return Wait("included, not final yet")
    deaths: dict[str, Mapping[str, Json]] = {}
    if seen.proofs:
        deaths = {a.name: _evidence(seen.proofs[a.name]) for a in record.live if a.name in seen.proofs}
    if record.status is Status.HELD and record.directive and record.directive.get("force") is True:
        deaths |= {a.name: _forced(record.directive) for a in effects if not a.dead and a.name not in deaths}
    alive = [a for a in effects if not a.dead and a.name not in deaths]
    keyless = effects[0].purpose is Purpose.KEYLESS
    if alive:
        if keyless:
            return _decide_keyless(record, alive[0], seen, policy, now)
        noops = [a for a in record.live if a.purpose is Purpose.NOOP and a.name not in seen.proofs]
        return decide_alive(Alive.of(record, alive, noops, seen, policy, traits, now, _doomed(record, seen)))
    return _end_keyless(record, deaths) if keyless else _decide_dead(record, seen, policy, deaths, now)


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


def _decide_dead(
    record: Record, seen: Observation, policy: Policy, deaths: Mapping[str, Mapping[str, Json]], now: int
) -> Step:
    """Nothing of the intent can land any more: end it as it was asked to end, or sign it again."""
    doom = _doomed(record, seen)
    cost = _noop_cost(record, seen)
    if cost is None and _awaited(record, seen, policy, now):
        return Wait("dead; its no-op may still land, and is what it cost")
    taken = cost or 0
    if record.cancel_requested:
        outcome = Outcome(Status.CANCELLED, cost=cost, noop_cost=taken)
        return Settle(outcome, "cancelled, and proven dead", deaths)
    if doom is not None:
        if doom.cause is KillCause.OVERDUE:
            error = failure("not_included", f"{doom.why}; it was cancelled by a no-op at its nonce", new_key_helps=True)
            outcome = Outcome(Status.CANCELLED, error=error, cost=cost, noop_cost=taken)
            return Settle(outcome, "cancelled for being late, and proven dead", deaths)
        code = "insufficient_funds" if doom.cause is KillCause.FUNDS else "rejected"
        error = failure(code, doom.why, new_key_helps=True)
        outcome = Outcome(Status.FAILED, error=error, cost=cost, noop_cost=taken)
        return Settle(outcome, "rejected, and proven dead", deaths)
    asked = record.status is Status.HELD and _verb(record) == "resign"
    if record.status is Status.HELD and not asked:
        return Wait("held: an operator decides")
    counted = any(death["cause"] not in _INNOCENT for death in deaths.values())
    if record.resigns + counted > policy.max_resigns and not asked:
        return Hold("resign_limit", {"resigns": record.resigns, "deaths": dict(deaths)})
    if not seen.clear:
        return Wait("dead; signed again when the lane's other nonces are included or dead")
    return Resign(deaths, counted, "every attempt is proven dead")


def _awaited(record: Record, seen: Observation, policy: Policy, now: int) -> bool:
    """Whether the end waits for a no-op that may still land, so that its cost is known: for as long as bytes usually
    take to be final, not for ever."""
    final = {a.nonce for a in record.attempts if seen.sightings.get(a.name, UNSEEN).where == "final"}
    waiting = [a for a in record.live if a.purpose is Purpose.NOOP and a.name not in seen.proofs]
    ages = [now - a.signed_at for a in waiting if a.nonce not in final]
    return bool(ages) and 0 <= min(ages) < _NOOP_PATIENCES * policy.include_within_ms


def _noop_cost(record: Record, seen: Observation, used: int | None = None) -> int | None:
    """What the no-ops that killed it took; None where one may have landed and nobody says for how much. Of several at
    one nonce only one lands, and none where `used` is the nonce."""
    costs: dict[int, int | None] = {}
    for attempt in record.attempts:
        if attempt.purpose is not Purpose.NOOP or attempt.dead or attempt.name in seen.proofs or attempt.nonce == used:
            continue
        sighting = seen.sightings.get(attempt.name)
        outcome = sighting.outcome if sighting is not None and sighting.where == "final" else None
        cost = outcome.cost if outcome is not None else None
        costs[attempt.nonce] = costs.get(attempt.nonce) if cost is None else cost
    known = [cost for cost in costs.values() if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _decide_keyless(record: Record, attempt: Attempt, seen: Observation, policy: Policy, now: int) -> Step:
    """The caller's own bytes: sent again and looked up; a problem is reported, as only the caller can sign others."""
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


def _end_keyless(record: Record, deaths: Mapping[str, Mapping[str, Json]]) -> Step:
    """Other bytes used the number, which proves that these never will."""
    if record.cancel_requested:
        return Settle(Outcome(Status.CANCELLED), "cancelled, and proven dead", deaths)
    proofs = [*deaths.values(), *(a.proof for a in record.attempts if a.proof)]
    rival = next((proof["landed"] for proof in proofs if "landed" in proof), None)
    code, by = ("nonce_used", "another transaction") if rival is None else ("replaced", str(rival))
    message = f"nonce {record.attempts[0].nonce} was used by {by}; nothing was spent on this one"
    return Settle(Outcome(Status.FAILED, error=failure(code, message, new_key_helps=True)), code, deaths)


def _asks_too_much(seen: Observation) -> bool:
    """The lane has its reserve and not this much: the intent ends alone, and its number is used up."""
    refused = seen.reply is not None and seen.reply.verdict is Verdict.INSUFFICIENT_FUNDS
    return refused and seen.lowest and seen.means is not None and seen.means.word is Word.FAIL


def _doomed(record: Record, seen: Observation) -> Doom | None:
    """Why the intent must end without an effect, if it must; a recorded no-op remembers it through a crash. A node's
    word ends no held intent: an operator decides about that one."""
    held = record.status is Status.HELD
    if not held and seen.reply is not None and seen.reply.verdict is Verdict.PERMANENT:
        return Doom(KillCause.REJECTED, seen.reply.message)
    if not held and _asks_too_much(seen):
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
