"""What to do with bytes that may still land: arms in order, one reason each; the first one that answers decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from txmanager.core.chain import UNSEEN, SendReply, Traits, Verdict
from txmanager.core.funds import Word
from txmanager.core.kills import OVERDUE_WORDS, Doom, KillCause
from txmanager.core.models import Attempt, Json, Record
from txmanager.core.states import Status
from txmanager.core.steps import Hold, Kill, Observation, Pause, Policy, Probe, Prove, Quarantine, Replace, Step, Wait
from txmanager.core.stops import PauseCause, QuarantineCause
from txmanager.core.values import value

_TOO_DEAR = (Verdict.FEE_CAP_EXCEEDED, Verdict.INSUFFICIENT_FUNDS)
_TOO_CHEAP = (Verdict.UNDERPRICED, Verdict.REPLACEMENT_UNDERPRICED, Verdict.INVALID_FEE)
_PATIENCES = 4
"""How often a node may refuse, a time for inclusion apart, what the balance could pay, before the lane stops for it."""
REPRICE_EVERY_MS = 1_000
"""A node that calls one price after the other too low is not chased faster than this."""


@value(frozen=True, slots=True)
class Alive:
    """An intent whose bytes may still land, as the arms below look at it."""

    record: Record
    attempts: Sequence[Attempt]
    """Its own, neither dead nor on chain."""
    noops: Sequence[Attempt]
    """What was recorded to kill it, and may still land."""
    seen: Observation
    policy: Policy
    traits: Traits
    now: int
    doom: Doom | None
    age: int
    """Since its newest bytes were signed."""
    refusal: SendReply | None
    """A node's newest word, if it did not take the bytes."""

    @classmethod
    def of(
        cls,
        record: Record,
        attempts: Sequence[Attempt],
        noops: Sequence[Attempt],
        seen: Observation,
        policy: Policy,
        traits: Traits,
        now: int,
        doom: Doom | None,
    ) -> Alive:
        age = now - (attempts[0].signed_at if len(attempts) == 1 else _newest(attempts).signed_at)
        refusal = seen.reply if seen.reply is not None and not seen.reply.verdict.sent else None
        return cls(record, attempts, noops, seen, policy, traits, now, doom, age, refusal)

    @property
    def held(self) -> bool:
        return self.record.status is Status.HELD

    @property
    def rivals(self) -> Sequence[Attempt]:
        """What is sent for it: once there is a no-op, that alone."""
        return self.noops or self.attempts

    @property
    def to_kill(self) -> bool:
        """It must end without an effect, and nothing was recorded yet that would end it."""
        return (self.record.cancel_requested or self.doom is not None) and not self.noops


def decide_alive(case: Alive) -> Step:
    """Some bytes may still land: look closer, send them again, or make their death provable. The first arm that has a
    step decides."""
    for arm in ARMS:
        if (step := arm(case)) is not None:
            return step
    return Wait("sent, not seen yet")


def prove_after_long(case: Alive) -> Step | None:
    if case.age < case.policy.hold_after_ms or case.held or case.seen.unproven:
        return None
    return Prove("not seen for long: it may have expired")


def hold_without_proof(case: Alive) -> Step | None:
    if case.age < case.policy.hold_after_ms or case.held:
        return None
    names: list[Json] = [a.name for a in case.attempts]
    return Hold("no_proof", {"attempts": names, "message": "neither landed nor provably dead"})


def prove_when_overtaken(case: Alive) -> Step | None:
    killed = case.seen.overtaken and case.traits.overtaking_kills
    if killed or (case.noops and any(on_chain(noop, case.seen) for noop in case.noops)):
        return Prove("a higher nonce is on chain")
    return None


def stop_without_funds(case: Alive) -> Step | None:
    """Whether a refusal for want of funds stops the lane. It may be for now: nodes count what else is on its way, and
    other lanes may spend from the same account. So only the lowest nonce tells, and only against the whole balance."""
    refusal, means = case.refusal, case.seen.means
    if refusal is None or refusal.verdict is not Verdict.INSUFFICIENT_FUNDS or not case.seen.lowest:
        return None
    if means is None:
        return Wait("refused for want of funds; the balance is not known yet")
    patient = case.age < _PATIENCES * case.policy.include_within_ms
    if means.word is Word.FAIL or (means.word is not Word.PAUSE and patient):
        return None
    purse = means.purse
    evidence = {"needs": str(means.needs), "balance": str(purse.balance), "purse": purse.name}
    return Pause(PauseCause.FUNDS, {"message": refusal.message, **evidence})


def quarantine_without_key(case: Alive) -> Step | None:
    if case.refusal is None or case.refusal.verdict is not Verdict.KEY_MISSING:
        return None
    return Quarantine(QuarantineCause.KEY_MISSING, {"message": case.refusal.message})


def prove_when_called_dead(case: Alive) -> Step | None:
    if case.refusal is None or case.refusal.verdict not in (Verdict.NONCE_TOO_LOW, Verdict.EXPIRED):
        return None
    return Prove(f"the node says {case.refusal.verdict}")


def prove_without_noop(case: Alive) -> Step | None:
    if case.seen.killable or not case.to_kill:
        return None
    return Prove("its key signs no no-op: expiry or the next intent that lands ends it")


def kill(case: Alive) -> Step | None:
    """A no-op at a nonce of its own must overtake nobody, so it waits for an idle lane."""
    safe = case.traits.replaces or (case.seen.clear and case.seen.idle)
    if not safe or case.seen.priced_out or not case.to_kill:
        return None
    return Kill(case.doom or Doom(KillCause.CANCELLED, "cancelled"), "a no-op makes its death provable")


def kill_overdue(case: Alive) -> Step | None:
    """The lowest nonce is given up, where the policy says so. Waiting for a lower one does not count."""
    seen, limit = case.seen, case.policy.cancel_after_ms
    if limit is None or not seen.lowest or seen.priced_out or case.noops or case.to_kill or case.held:
        return None
    since = max(seen.lowest_since, min(a.signed_at for a in case.attempts))
    if case.now - since < limit:
        return None
    return Kill(Doom(KillCause.OVERDUE, f"{OVERDUE_WORDS} {limit // 1000} s"), "a no-op frees the lane from it")


def offer_more_when_refused(case: Alive) -> Step | None:
    """A node calls the price too low."""
    verdict = case.seen.reply.verdict if case.seen.reply else None
    if verdict not in _TOO_CHEAP or not _may_offer_more(case) or _price_age(case) < REPRICE_EVERY_MS:
        return None
    return Replace(_newest(case.rivals), f"the node says {verdict}")


def offer_more_when_slow(case: Alive) -> Step | None:
    """Only the lowest nonce is bumped for being slow."""
    if case.refusal is not None or not case.seen.lowest or not _may_offer_more(case):
        return None
    if min(_price_age(case), case.now - case.seen.lowest_since) < case.policy.replace_after_ms:
        return None
    return Replace(_newest(case.rivals), "not included at its price")


def probe_when_late(case: Alive) -> Step | None:
    """Also what waits for the next intent to kill it: that one may never come, and the bytes may have expired.
    A send that lies ahead was stamped before the clock was set back: its age is not known, so ask."""
    if 0 <= case.now - case.seen.sent_at < case.policy.include_within_ms:
        return None
    return Probe(_probed(case), "not included in time")


def wait_for_the_next(case: Alive) -> Step | None:
    return Wait("killed by the next intent that lands") if case.to_kill else None


Arm = Callable[[Alive], Step | None]
ARMS: tuple[Arm, ...] = (
    prove_after_long,
    hold_without_proof,
    prove_when_overtaken,
    stop_without_funds,
    quarantine_without_key,
    prove_when_called_dead,
    prove_without_noop,
    kill,
    kill_overdue,
    offer_more_when_refused,
    offer_more_when_slow,
    probe_when_late,
    wait_for_the_next,
)


def _may_offer_more(case: Alive) -> bool:
    return case.traits.replaces and not case.held and not case.seen.priced_out


def _price_age(case: Alive) -> int:
    return case.now - _newest(case.rivals).signed_at


def _newest(attempts: Sequence[Attempt]) -> Attempt:
    return max(attempts, key=lambda a: a.signed_at)


def _probed(case: Alive) -> Attempt:
    """Of several attempts at one nonce the dearest; the one before it when a node's own cap, or the balance, refuses
    that."""
    if not case.traits.replaces:
        return case.rivals[0]
    by_age = sorted(case.rivals, key=lambda a: a.signed_at)
    verdict = case.seen.reply.verdict if case.seen.reply else None
    return by_age[-2] if verdict in _TOO_DEAR and len(by_age) > 1 else by_age[-1]


def on_chain(attempt: Attempt, seen: Observation) -> bool:
    return seen.sightings.get(attempt.name, UNSEEN).where in ("included", "final")
