"""`decide` is pure and total: one test per arm, then promises over every record and observation there can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txmanager.core.chain import Proof, SendReply, Sighting, Traits, Verdict
from txmanager.core.decide import (
    Hold,
    Kill,
    Observation,
    Pause,
    Policy,
    Probe,
    Prove,
    Quarantine,
    Resign,
    Settle,
    Step,
    Wait,
    decide,
)
from txmanager.core.funds import Finding, Purse, Word
from txmanager.core.kills import Doom, KillCause
from txmanager.core.models import Attempt, Outcome, Purpose, Record, new_intent
from txmanager.core.states import Status
from txmanager.core.stops import PauseCause, QuarantineCause

NEAR = Traits(gaps_block=False, overtaking_kills=True, replaces=False)
EVM = Traits(gaps_block=True, overtaking_kills=False, replaces=True)
POLICY = Policy(include_within_ms=1_000, hold_after_ms=60_000, max_resigns=3)
DONE = Outcome(Status.DONE, result={"value": "1"})
NOW = 100_000
LONG_AGO = NOW - 4 * POLICY.include_within_ms
"""Of a no-op that nobody waits for any more."""


def attempt(nonce: int = 7, purpose: Purpose = Purpose.FIRST, *, dead: bool = False, **more: Any) -> Attempt:
    made = Attempt(nonce, f"hash{nonce}", b"bytes", purpose, more.pop("signed_at", NOW - 100), **more)
    return made.with_proof({"cause": "overtaken"}) if dead else made


def record(*attempts: Attempt, status: Status = Status.INFLIGHT, **more: Any) -> Record:
    intent = new_intent(key="k", pool="p", kind="near.transfer", payload={"receiver_id": "bob.near", "amount": "1"})
    return Record(
        intent=intent,
        lane="near:n:a:k",
        life="l",
        status=status,
        position="1-0",
        created_at=0,
        updated_at=0,
        attempts=attempts or (attempt(),),
        **more,
    )


def seen(**more: Any) -> Observation:
    return Observation(**{"sent_at": NOW - 10, **more})


def said(verdict: Verdict, message: str = "the node's words") -> dict[str, SendReply]:
    return {"reply": SendReply(verdict, message)}


def proven(*attempts: Attempt, cause: Any = "overtaken") -> dict[str, Mapping[str, Proof]]:
    return {"proofs": {a.name: Proof(cause, {"final_nonce": "9"}) for a in attempts}}


def ask(of: Record, observed: Observation, traits: Traits = NEAR, policy: Policy = POLICY) -> Step:
    return decide(of, observed, policy, traits, NOW)


# -- on chain


def test_a_final_hash_settles_with_its_own_hash_and_nonce() -> None:
    step = ask(record(), seen(sightings={"7:hash7": Sighting("final", DONE)}))
    assert isinstance(step, Settle)
    assert step.outcome == replace(DONE, tx_hash="hash7", nonce=7)
    assert step.deaths == {}


def test_a_final_hash_of_an_earlier_attempt_settles_although_a_later_one_is_live() -> None:
    step = ask(
        record(attempt(7, dead=True), attempt(9, Purpose.RESIGN)), seen(sightings={"7:hash7": Sighting("final", DONE)})
    )
    assert isinstance(step, Settle)
    assert step.outcome.nonce == 7


def test_a_final_hash_settles_a_held_and_a_cancelled_intent_as_done() -> None:
    final = {"7:hash7": Sighting("final", DONE)}
    for of in (record(status=Status.HELD), record(cancel_requested=True)):
        step = ask(of, seen(sightings=final))
        assert isinstance(step, Settle)
        assert step.outcome.status is Status.DONE


def test_an_effect_that_failed_on_chain_settles_failed_with_its_hash() -> None:
    failed = Outcome(Status.FAILED, error={"code": "execution_failed"})
    step = ask(record(), seen(sightings={"7:hash7": Sighting("final", failed)}))
    assert isinstance(step, Settle)
    assert (step.outcome.status, step.outcome.tx_hash) == (Status.FAILED, "hash7")


def test_included_but_not_final_waits_whatever_nodes_say_meanwhile() -> None:
    for verdict in Verdict:
        step = ask(record(), seen(sightings={"7:hash7": Sighting("included")}, **said(verdict), sent_at=0))
        assert isinstance(step, Wait)


def test_a_final_no_op_is_never_the_intents_outcome() -> None:
    noop = attempt(8, Purpose.NOOP)
    step = ask(record(attempt(), noop), seen(sightings={"8:hash8": Sighting("final", DONE)}))
    assert isinstance(step, Prove)


# -- nothing in flight


def test_a_record_without_attempts_or_already_final_is_left_alone() -> None:
    assert isinstance(ask(replace(record(), attempts=(), status=Status.QUEUED), seen()), Wait)
    assert isinstance(ask(record(status=Status.DONE), seen(sent_at=0)), Wait)


# -- alive


def test_a_fresh_send_waits() -> None:
    assert ask(record(), seen(**said(Verdict.ACCEPTED))) == Wait("sent, not seen yet")


def test_what_is_not_included_in_time_is_probed_with_the_same_bytes() -> None:
    step = ask(record(), seen(sent_at=NOW - POLICY.include_within_ms))
    assert isinstance(step, Probe)
    assert step.attempt.name == "7:hash7"


@pytest.mark.parametrize(
    "verdict", [Verdict.UNKNOWN, Verdict.UNAVAILABLE, Verdict.BUSY, Verdict.RATE_LIMITED, Verdict.NONCE_GAP]
)
def test_an_unknown_fate_is_probed_again_and_never_signed_again(verdict: Verdict) -> None:
    assert isinstance(ask(record(), seen(**said(verdict))), Wait)
    assert isinstance(ask(record(), seen(**said(verdict), sent_at=0)), Probe)


def test_a_higher_nonce_on_chain_asks_for_a_proof_where_overtaking_kills() -> None:
    assert isinstance(ask(record(), seen(overtaken=True)), Prove)
    assert isinstance(ask(record(), seen(overtaken=True), EVM), Wait)


@pytest.mark.parametrize("verdict", [Verdict.NONCE_TOO_LOW, Verdict.EXPIRED])
def test_a_nodes_word_of_death_is_proven_not_believed(verdict: Verdict) -> None:
    assert isinstance(ask(record(), seen(**said(verdict), clear=True, idle=True)), Prove)


def means(word: Word, needs: int = 9) -> Finding:
    return Finding(word, Purse("account", 5), needs)


def poor(word: Word | None, **more: Any) -> Observation:
    known = {"means": means(word)} if word is not None else {}
    return seen(**{**said(Verdict.INSUFFICIENT_FUNDS, "lacks 5"), "lowest": True, **known, **more})


@pytest.mark.parametrize("traits", [NEAR, EVM])
def test_a_poor_lane_pauses_with_the_nodes_words_and_the_numbers(traits: Traits) -> None:
    step = ask(record(), poor(Word.PAUSE), traits)
    assert isinstance(step, Pause)
    assert step.cause is PauseCause.FUNDS
    assert step.evidence == {"message": "lacks 5", "needs": "9", "balance": "5", "purse": "account"}


@pytest.mark.parametrize("traits", [NEAR, EVM])
def test_a_refusal_for_want_of_funds_may_be_for_now(traits: Traits) -> None:
    """Of a higher nonce it says nothing; of the lowest the balance decides, and what fits is sent again for a while."""
    for word in Word:
        assert isinstance(ask(record(), poor(word, lowest=False), traits), Wait)
        assert isinstance(ask(record(), poor(word, lowest=False, sent_at=0), traits), Probe)
    assert isinstance(ask(record(), poor(None, sent_at=0), traits), Wait), "nothing before the balance is known"
    for word in (Word.PROCEED, Word.WAIT):
        assert isinstance(ask(record(), poor(word), traits), Wait)
        assert isinstance(ask(record(attempt(signed_at=NOW - 4_000)), poor(word), traits), Pause)


def test_only_the_lowest_nonce_that_asks_for_more_than_there_is_is_killed() -> None:
    alone = {"clear": True, "idle": True}
    step = ask(record(), poor(Word.FAIL, **alone))
    assert isinstance(step, Kill)
    assert step.doom == Doom(KillCause.FUNDS, "it may cost 9, and the lane's account has 5; nothing was spent")
    assert isinstance(ask(record(), poor(Word.FAIL)), Wait), "NEAR: killed by the next that lands"
    assert isinstance(ask(record(), poor(Word.FAIL), EVM), Kill)
    for other in (poor(Word.FAIL, **alone, lowest=False), poor(Word.PROCEED, **alone), poor(None, **alone)):
        for traits in (NEAR, EVM):
            assert not isinstance(ask(record(), other, traits), Kill)
    for traits in (NEAR, EVM):
        assert isinstance(ask(record(), poor(Word.FAIL, **alone, priced_out=True), traits), Wait), (
            "while it can be paid"
        )


def test_what_asked_for_too_much_ends_with_that_code_when_it_is_proven_dead() -> None:
    noop = attempt(8, Purpose.NOOP, terms=Doom(KillCause.FUNDS, "too much").terms, signed_at=LONG_AGO)
    step = ask(record(attempt(), noop), seen(**proven(attempt())))
    assert isinstance(step, Settle)
    assert step.outcome.status is Status.FAILED
    assert step.outcome.error is not None
    assert (step.outcome.error["code"], step.outcome.error["spent"]) == ("insufficient_funds", "0")


def test_a_missing_key_quarantines_the_lane() -> None:
    step = ask(record(), seen(**said(Verdict.KEY_MISSING)))
    assert isinstance(step, Quarantine)
    assert step.cause is QuarantineCause.KEY_MISSING


def test_a_permanent_rejection_is_killed_only_on_an_idle_lane() -> None:
    permanent = said(Verdict.PERMANENT, "bad signature")
    assert isinstance(ask(record(), seen(**permanent)), Wait)
    assert isinstance(ask(record(), seen(**permanent, clear=True)), Wait)
    step = ask(record(), seen(**permanent, clear=True, idle=True))
    assert isinstance(step, Kill)
    assert step.doom == Doom(KillCause.REJECTED, "bad signature")


def test_where_attempts_are_replaced_a_rejection_is_killed_at_once() -> None:
    assert isinstance(ask(record(), seen(**said(Verdict.PERMANENT)), EVM), Kill)


def test_a_cancelled_flight_is_killed_only_on_an_idle_lane() -> None:
    of = record(cancel_requested=True)
    assert isinstance(ask(of, seen(sent_at=NOW)), Wait)
    step = ask(of, seen(clear=True, idle=True))
    assert isinstance(step, Kill)
    assert step.doom.cause is KillCause.CANCELLED


def test_a_cancelled_flight_on_a_busy_lane_is_asked_after_too() -> None:
    """The intent that would kill it may never come, and its bytes may have expired."""
    assert isinstance(ask(record(cancel_requested=True), seen(sent_at=0)), Probe)


def test_a_clock_set_back_does_not_stop_the_asking() -> None:
    assert isinstance(ask(record(), seen(sent_at=NOW + 3_600_000)), Probe)


@pytest.mark.parametrize("verb", ["kill", "fail"])
def test_an_operators_end_of_a_held_intent_needs_a_no_op_first(verb: str) -> None:
    of = record(status=Status.HELD, directive={"verb": verb, "by": "ops"})
    assert isinstance(ask(of, seen(clear=True, idle=True)), Kill)


def test_a_key_that_signs_no_no_op_waits_for_a_proof_instead() -> None:
    of = record(cancel_requested=True)
    assert isinstance(ask(of, seen(clear=True, idle=True, killable=False)), Prove)


def test_once_a_no_op_is_recorded_it_alone_is_sent_again() -> None:
    of = record(attempt(), attempt(8, Purpose.NOOP), cancel_requested=True)
    step = ask(of, seen(sent_at=0, clear=True, idle=True))
    assert isinstance(step, Probe)
    assert step.attempt.purpose is Purpose.NOOP


def test_what_is_neither_landed_nor_provable_is_held_after_one_try_to_prove_it() -> None:
    old = record(attempt(signed_at=NOW - POLICY.hold_after_ms))
    assert isinstance(ask(old, seen()), Prove)
    for more in ({}, {"overtaken": True}, said(Verdict.EXPIRED)):
        step = ask(old, seen(unproven=True, **more))
        assert isinstance(step, Hold)
        assert step.reason == "no_proof"
    assert isinstance(ask(replace(old, status=Status.HELD), seen(unproven=True, sent_at=0)), Probe)


# -- dead


def test_proven_dead_is_signed_again_only_when_it_can_overtake_nobody() -> None:
    assert isinstance(ask(record(), seen(**proven(attempt()))), Wait)
    step = ask(record(), seen(**proven(attempt()), clear=True))
    assert isinstance(step, Resign)
    assert step.deaths["7:hash7"]["cause"] == "overtaken"


@pytest.mark.parametrize("cause", ["overtaken", "expired"])
def test_an_innocent_death_does_not_use_up_the_resign_limit(cause: str) -> None:
    step = ask(record(resigns=3), seen(**proven(attempt(), cause=cause), clear=True))
    assert isinstance(step, Resign)
    assert step.counted is False


def test_the_fourth_refused_attempt_is_held_with_its_deaths() -> None:
    refused = proven(attempt(), cause="refused")
    step = ask(record(resigns=2), seen(**refused, clear=True))
    assert isinstance(step, Resign)
    assert step.counted is True
    step = ask(record(resigns=3), seen(**refused, clear=True))
    assert isinstance(step, Hold)
    assert step.reason == "resign_limit"
    assert "7:hash7" in step.evidence["deaths"]


def test_a_cancelled_intent_that_is_dead_settles_cancelled_with_the_proof() -> None:
    step = ask(record(cancel_requested=True), seen(**proven(attempt())))
    assert isinstance(step, Settle)
    assert step.outcome == Outcome(Status.CANCELLED, cost=0), "nothing of it landed"
    assert set(step.deaths) == {"7:hash7"}


def paid(nonce: int, cost: int | None) -> Sighting:
    return Sighting("final", Outcome(Status.DONE, f"hash{nonce}", nonce, cost=cost))


def test_cancelled_intent_costs_what_its_no_ops_took_and_nobody_guesses() -> None:
    noop, other = (attempt(n, Purpose.NOOP, signed_at=LONG_AGO) for n in (8, 9))
    for sightings, cost in [
        ({}, None),
        ({"8:hash8": Sighting("included"), "9:hash9": paid(9, 3)}, None),
        ({"8:hash8": paid(8, None), "9:hash9": paid(9, 3)}, None),
        ({"8:hash8": paid(8, 4), "9:hash9": paid(9, 3)}, 7),
    ]:
        step = ask(
            record(attempt(), noop, other, cancel_requested=True), seen(**proven(attempt()), sightings=sightings)
        )
        assert isinstance(step, Settle)
        assert (step.outcome.cost, step.outcome.noop_cost) == (cost, cost or 0)
    dead = record(attempt(), noop, replace(other, proof={"cause": "expired"}), cancel_requested=True)
    step = ask(dead, seen(**proven(attempt()), sightings={"8:hash8": paid(8, 4)}))
    assert isinstance(step, Settle)
    assert step.outcome.cost == 4, "one that is proven dead took nothing"


def test_of_several_no_ops_at_one_nonce_only_the_one_that_landed_is_paid() -> None:
    bumped = [replace(attempt(7, Purpose.NOOP), hash=name) for name in ("a", "b", "c")]
    bumped = [replace(one, signed_at=n) for n, one in enumerate(bumped)]
    told = record(attempt(), *bumped, cancel_requested=True)
    step = ask(told, seen(**proven(attempt()), sightings={"7:b": paid(7, 5)}))
    assert isinstance(step, Settle)
    assert step.outcome.cost == 5


def test_no_op_that_landed_beside_its_intent_is_paid_too() -> None:
    final = {"7:hash7": paid(7, 100), "8:hash8": paid(8, 4)}
    step = ask(record(attempt(), attempt(8, Purpose.NOOP)), seen(sightings=final))
    assert isinstance(step, Settle)
    assert (step.outcome.cost, step.outcome.noop_cost) == (104, 4)
    final["8:hash8"] = Sighting("unknown")
    late = record(attempt(), attempt(8, Purpose.NOOP, signed_at=LONG_AGO))
    step = ask(late, seen(sightings=final))
    assert isinstance(step, Settle)
    assert (step.outcome.cost, step.outcome.noop_cost) == (None, 0), "it may land later, and nobody guesses"
    step = ask(late, seen(sightings=final, **proven(attempt(8, Purpose.NOOP))))
    assert isinstance(step, Settle)
    assert step.outcome.cost == 100, "it never lands"


def test_end_waits_for_a_no_op_that_may_still_land_so_that_its_cost_is_known() -> None:
    noop = attempt(8, Purpose.NOOP)
    for where in ("unknown", "pending", "included"):
        final = {"7:hash7": paid(7, 100), "8:hash8": Sighting(where)}
        assert isinstance(ask(record(attempt(), noop), seen(sightings=final)), Wait)
        cancelled = record(attempt(), noop, cancel_requested=True)
        assert isinstance(ask(cancelled, seen(**proven(attempt()), sightings={"8:hash8": Sighting(where)})), Wait)
    edge = record(attempt(), attempt(8, Purpose.NOOP, signed_at=LONG_AGO + 1))
    assert isinstance(ask(edge, seen(sightings={"7:hash7": paid(7, 100)})), Wait), "as long as that"
    ahead = record(attempt(), attempt(8, Purpose.NOOP, signed_at=NOW))
    assert isinstance(ask(ahead, seen(sightings={"7:hash7": paid(7, 100)})), Wait), "signed just now"
    back = record(attempt(), attempt(8, Purpose.NOOP, signed_at=NOW + 1))
    assert isinstance(ask(back, seen(sightings={"7:hash7": paid(7, 100)})), Settle), "the clock was set back"
    several = record(attempt(), attempt(8, Purpose.NOOP, signed_at=LONG_AGO), attempt(9, Purpose.NOOP))
    assert isinstance(ask(several, seen(sightings={"7:hash7": paid(7, 100)})), Wait), "the newest counts"
    unpriced = {"7:hash7": paid(7, 100), "8:hash8": paid(8, None)}
    step = ask(record(attempt(), noop), seen(sightings=unpriced))
    assert isinstance(step, Settle), "waiting longer tells nobody more"
    assert step.outcome.cost is None


def test_no_op_at_the_nonce_of_what_landed_is_not_waited_for() -> None:
    rival = replace(attempt(7, Purpose.NOOP), hash="rival")
    step = ask(record(attempt(), rival), seen(sightings={"7:hash7": paid(7, 100)}), EVM)
    assert isinstance(step, Settle)
    assert (step.outcome.cost, step.outcome.noop_cost) == (100, 0)


def test_a_rejected_intent_that_is_dead_settles_failed_with_the_nodes_words() -> None:
    step = ask(record(), seen(**proven(attempt()), **said(Verdict.PERMANENT, "bad signature")))
    assert isinstance(step, Settle)
    assert step.outcome.status is Status.FAILED
    assert step.outcome.error is not None
    assert step.outcome.error["message"] == "bad signature"


def test_a_no_op_remembers_through_a_crash_why_its_intent_failed() -> None:
    noop = attempt(8, Purpose.NOOP, terms={"why": "bad signature"}, signed_at=LONG_AGO)
    step = ask(record(attempt(), noop), seen(**proven(attempt())))
    assert isinstance(step, Settle)
    assert step.outcome.error is not None
    assert step.outcome.error["message"] == "bad signature"


def test_a_held_intent_that_is_dead_waits_for_an_operator() -> None:
    assert isinstance(ask(record(status=Status.HELD), seen(**proven(attempt()), clear=True)), Wait)


@pytest.mark.parametrize("proof", [{}, proven(attempt())])
def test_a_nodes_word_neither_kills_nor_ends_a_held_intent(proof: dict[str, Any]) -> None:
    refused = {"reply": SendReply(Verdict.PERMANENT, "bad"), "clear": True, "idle": True, **proof}
    assert isinstance(ask(record(), seen(**refused)), Settle if proof else Kill)
    held = record(status=Status.HELD)
    assert isinstance(ask(held, seen(**refused)), Wait | Probe)
    # Whoever asked for its end gets it.
    assert isinstance(ask(replace(held, cancel_requested=True), seen(**refused)), Settle if proof else Kill)
    assert isinstance(ask(replace(held, directive={"verb": "kill"}), seen(**refused)), Settle if proof else Kill)


def test_an_operators_resign_passes_the_limit_once_and_only_with_the_proof() -> None:
    told = {"verb": "resign", "by": "ops"}
    held = record(status=Status.HELD, resigns=3, directive=told)
    assert not isinstance(ask(held, seen(clear=True)), Resign)
    refused = proven(attempt(), cause="refused")
    assert isinstance(ask(held, seen(**refused, clear=True)), Resign)
    # The same word, left on a record that flies again, does not lift the limit for ever.
    assert isinstance(ask(replace(held, status=Status.INFLIGHT), seen(**refused, clear=True)), Hold)


@pytest.mark.parametrize(("verb", "expected"), [("fail", Settle), ("resign", Resign)])
def test_force_overrules_a_missing_proof_of_a_held_intent_and_names_who_asked(verb: str, expected: type) -> None:
    told = {"verb": verb, "by": "ops", "force": True}
    step = ask(record(status=Status.HELD, directive=told), seen(clear=True))
    assert isinstance(step, Settle | Resign)
    assert isinstance(step, expected)
    assert (step.deaths["7:hash7"]["cause"], step.deaths["7:hash7"]["by"]) == ("forced", "ops")
    assert not isinstance(ask(record(directive=told), seen(clear=True)), Settle | Resign)


# -- every record, every observation

nonces = st.integers(1, 6)
outcomes = st.sampled_from([DONE, Outcome(Status.FAILED, error={"code": "x"})])
sightings = st.one_of(
    st.sampled_from([Sighting("unknown"), Sighting("pending"), Sighting("included"), Sighting("final")]),
    outcomes.map(lambda outcome: Sighting("final", outcome)),
)
proofs = st.sampled_from([Proof("overtaken"), Proof("expired"), Proof("refused")])


@st.composite
def attempts_of(draw: st.DrawFn) -> tuple[Attempt, ...]:
    made = []
    # What a caller signed is never mixed with what is signed here.
    ours = [purpose for purpose in Purpose if purpose is not Purpose.KEYLESS]
    purposes = draw(st.sampled_from([ours, [Purpose.KEYLESS]]))
    for nonce in sorted(draw(st.sets(nonces, min_size=1, max_size=4))):
        purpose = draw(st.sampled_from(purposes))
        signed_at = draw(st.sampled_from([0, NOW - POLICY.hold_after_ms, NOW - 1]))
        made.append(attempt(nonce, purpose, dead=draw(st.booleans()), signed_at=signed_at))
    return tuple(made)


@st.composite
def records(draw: st.DrawFn) -> Record:
    verb = draw(st.sampled_from([None, "track", "settle", "kill", "resign", "fail", "nonsense"]))
    return record(
        *draw(attempts_of()),
        status=draw(st.sampled_from(list(Status))),
        cancel_requested=draw(st.booleans()),
        directive={"verb": verb, "by": "ops"} if verb else None,
        resigns=draw(st.integers(0, 5)),
    )


@st.composite
def observations(draw: st.DrawFn, of: Record) -> Observation:
    names = [a.name for a in of.attempts]
    some = st.sets(st.sampled_from(names), max_size=len(names))
    return Observation(
        sightings={name: draw(sightings) for name in draw(some)},
        proofs={name: draw(proofs) for name in draw(some)},
        reply=draw(st.none() | st.sampled_from(list(Verdict)).map(lambda v: SendReply(v, "words"))),
        sent_at=draw(st.sampled_from([0, NOW - POLICY.include_within_ms, NOW])),
        overtaken=draw(st.booleans()),
        clear=draw(st.booleans()),
        idle=draw(st.booleans()),
        unproven=draw(st.booleans()),
        killable=draw(st.booleans()),
        lowest=draw(st.booleans()),
        priced_out=draw(st.booleans()),
        means=draw(st.none() | st.sampled_from(list(Word)).map(means)),
    )


@st.composite
def situations(draw: st.DrawFn) -> tuple[Record, Observation, Traits]:
    of = draw(records())
    return of, draw(observations(of)), draw(st.sampled_from([NEAR, EVM]))


def unproven_effects(of: Record, observed: Observation) -> list[Attempt]:
    return [a for a in of.effects if not a.dead and a.name not in observed.proofs]


@settings(max_examples=200, deadline=None)
@given(situations())
def test_every_situation_has_one_step_and_deciding_twice_decides_the_same(
    situation: tuple[Record, Observation, Traits],
) -> None:
    of, observed, traits = situation
    step = ask(of, observed, traits)
    assert isinstance(step, Step)
    assert getattr(step, "reason", "") or getattr(step, "cause", "")
    assert ask(of, observed, traits) == step


@settings(max_examples=200, deadline=None)
@given(situations())
def test_an_effect_seen_final_is_settled_and_nothing_else_is_done(
    situation: tuple[Record, Observation, Traits],
) -> None:
    of, observed, traits = situation
    step = ask(of, observed, traits)
    final = [
        a
        for a in of.effects
        if (s := observed.sightings.get(a.name)) and s.where == "final" and s.outcome and not of.status.final
    ]
    if final:
        assert isinstance(step, Settle)
        assert (step.outcome.nonce, step.outcome.tx_hash) in {(a.nonce, a.hash) for a in final}
    if isinstance(step, Settle) and step.outcome.status is Status.DONE:
        assert final, "only a hash seen final settles done"


@settings(max_examples=200, deadline=None)
@given(situations())
def test_nothing_ends_without_effect_or_is_signed_again_while_an_effect_may_land(
    situation: tuple[Record, Observation, Traits],
) -> None:
    of, observed, traits = situation
    step = ask(of, observed, traits)
    without_effect = isinstance(step, Settle) and step.outcome.tx_hash is None
    if without_effect or isinstance(step, Resign):
        assert isinstance(step, Settle | Resign)
        assert unproven_effects(of, observed) == []
        assert not any(
            (s := observed.sightings.get(a.name)) and s.where in ("included", "final") for a in of.effects
        ), "seen on chain"
        live = [a for a in of.effects if not a.dead]
        assert {a.name for a in live} <= set(step.deaths), "the write carries every proof it rests on"
    if isinstance(step, Resign):
        assert observed.clear, "a re-sign overtakes nobody"


@settings(max_examples=200, deadline=None)
@given(situations())
def test_a_held_intent_is_never_held_again_and_ends_only_by_chain_or_operator(
    situation: tuple[Record, Observation, Traits],
) -> None:
    of, observed, traits = situation
    if of.status is not Status.HELD:
        return
    step = ask(of, observed, traits)
    assert not isinstance(step, Hold)
    if isinstance(step, Resign):
        assert of.directive is not None
        assert of.directive["verb"] == "resign"


@settings(max_examples=200, deadline=None)
@given(situations())
def test_a_probe_sends_only_bytes_that_are_recorded_and_may_still_land(
    situation: tuple[Record, Observation, Traits],
) -> None:
    of, observed, traits = situation
    step = ask(of, observed, traits)
    if isinstance(step, Probe):
        assert step.attempt in of.live
        assert step.attempt.name not in observed.proofs
        noops = [a for a in of.live if a.purpose is Purpose.NOOP and a.name not in observed.proofs]
        assert not noops or step.attempt in noops, "what a no-op kills is not sent again"
