"""What `decide` makes of what nodes say: final hashes, nodes that disagree, the dead beside the living."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.test_decide import DONE, LONG_AGO, NEAR, NOW, POLICY, attempt, record
from txmanager.core.chain import Doubt, Proof, SendReply, Sighting, Verdict
from txmanager.core.decide import Hold, Kill, Observation, Prove, Resign, Settle, Step, Wait, decide
from txmanager.core.funds import Finding, Purse, Word
from txmanager.core.models import Purpose, Record
from txmanager.core.states import Status


def ask(what: Record, seen: Observation, now: int = NOW) -> Step:
    return decide(what, seen, POLICY, NEAR, now)


def doubted(conflict: bool) -> Sighting:
    return Sighting("included", doubt=Doubt("outcome", {"a": "done", "b": "failed"}, conflict))


def test_an_outcome_is_stored_under_the_hash_and_nonce_that_were_recorded():
    own = attempt()
    for outcome in (
        DONE,
        replace(DONE, tx_hash="other", nonce=own.nonce),
        replace(DONE, tx_hash=own.hash, nonce=own.nonce + 1),
        replace(DONE, tx_hash=own.hash, nonce=own.nonce),
    ):
        step = ask(record(), Observation(sightings={own.name: Sighting("final", outcome)}))
        assert isinstance(step, Settle)
        assert (step.outcome.tx_hash, step.outcome.nonce) == (own.hash, own.nonce)


def test_only_a_final_block_ends_an_intent():
    own = attempt()
    step = ask(record(), Observation(sightings={own.name: Sighting("included", DONE)}))
    assert step == Wait("included, not final yet")


def test_nodes_that_disagree_hold_an_intent_at_once():
    own = attempt()
    step = ask(record(), Observation(sightings={own.name: doubted(conflict=True)}))
    assert isinstance(step, Hold)
    assert step.reason == "nodes_disagree"
    assert step.evidence == {"attempt": own.name, "about": "outcome", "nodes": {"a": "done", "b": "failed"}}


def test_too_few_nodes_hold_an_intent_after_its_time():
    own = attempt()
    seen = Observation(sightings={own.name: doubted(conflict=False)})
    late = own.signed_at + POLICY.hold_after_ms
    assert isinstance(ask(record(), seen, late - 1), Wait)
    step = ask(record(), seen, late)
    assert isinstance(step, Hold)
    assert step.reason == "not_confirmed"


def test_a_doubt_about_a_later_attempt_counts_too():
    first, second = attempt(7), attempt(8, Purpose.RESIGN)
    seen = Observation(sightings={first.name: Sighting("unknown"), second.name: doubted(conflict=True)})
    assert isinstance(ask(record(first, second), seen), Hold)


def test_a_held_intent_is_not_held_again_for_a_doubt():
    seen = Observation(sightings={attempt().name: doubted(conflict=True)})
    assert ask(record(status=Status.HELD), seen) == Wait("included, not final yet")


@pytest.mark.parametrize("stored", [True, False])
def test_a_death_counts_whether_it_is_stored_or_only_found(stored: bool):
    dead, alive = attempt(7, dead=stored), attempt(8, Purpose.RESIGN)
    proofs = {} if stored else {attempt(7).name: Proof("overtaken", {})}
    assert isinstance(ask(record(dead, alive), Observation(proofs=proofs, clear=True, sent_at=NOW)), Wait)
    both = {**proofs, alive.name: Proof("overtaken", {})}
    assert isinstance(ask(record(dead, alive), Observation(proofs=both, clear=True)), Resign)


def test_a_no_op_that_is_dead_does_not_keep_the_next_one_back():
    own, noop = attempt(), attempt(8, Purpose.NOOP, terms={"doom": "cancelled"})
    told = {"reply": SendReply(Verdict.UNAVAILABLE), "clear": True, "idle": True, "sent_at": NOW}
    cancelled = record(own, noop, cancel_requested=True)
    assert not isinstance(ask(cancelled, Observation(**told)), Kill)
    proofs = {noop.name: Proof("expired", {})}
    assert isinstance(ask(cancelled, Observation(proofs=proofs, **told)), Kill | Prove)


def test_a_final_sighting_without_an_outcome_ends_nothing():
    step = ask(record(), Observation(sightings={attempt().name: Sighting("final")}))
    assert step == Wait("included, not final yet")


def test_one_of_several_effects_on_chain_is_enough_to_wait():
    first, second = attempt(7), attempt(8, Purpose.RESIGN)
    step = ask(record(first, second), Observation(sightings={second.name: Sighting("included")}))
    assert step == Wait("included, not final yet")


def test_a_cost_that_nobody_knows_stays_unknown_beside_a_no_op_that_is_known():
    own, noop = attempt(7), attempt(8, Purpose.NOOP)
    final = {own.name: Sighting("final", DONE), noop.name: Sighting("final", replace(DONE, cost=4))}
    step = ask(record(own, noop), Observation(sightings=final))
    assert isinstance(step, Settle)
    assert step.outcome.cost is None


@pytest.mark.parametrize(
    ("sightings", "proofs", "cost"),
    [
        ({"8:hash8": Sighting("included", replace(DONE, cost=4))}, {}, None),
        ({}, {"8:hash8": Proof("expired", {})}, 0),
    ],
    ids=["included is not paid yet", "proven dead took nothing"],
)
def test_a_no_op_is_paid_when_it_is_final_and_free_when_it_is_proven_dead(sightings, proofs, cost):
    own, noop = attempt(7), attempt(8, Purpose.NOOP, signed_at=LONG_AGO)
    seen = Observation(sightings=sightings, proofs={own.name: Proof("overtaken", {}), **proofs})
    step = ask(record(own, noop, cancel_requested=True), seen)
    assert isinstance(step, Settle)
    assert step.outcome.cost == cost


def test_force_adds_its_word_only_where_there_is_no_proof():
    stored, found, open_one = attempt(6, dead=True), attempt(7, Purpose.RESIGN), attempt(8, Purpose.RESIGN)
    told = record(stored, found, open_one, status=Status.HELD, directive={"verb": "fail", "by": "ops", "force": True})
    step = ask(told, Observation(proofs={found.name: Proof("expired", {"final_height": "9"})}, clear=True))
    assert isinstance(step, Settle)
    assert {name: death["cause"] for name, death in step.deaths.items()} == {
        found.name: "expired",
        open_one.name: "forced",
    }


@pytest.mark.parametrize("why", ["not included within 60 s", "bad signature"])
def test_what_ended_without_an_effect_may_be_tried_under_a_new_key(why: str):
    own, noop = attempt(7), attempt(8, Purpose.NOOP, terms={"why": why}, signed_at=LONG_AGO)
    step = ask(record(own, noop), Observation(proofs={own.name: Proof("overtaken", {})}))
    assert isinstance(step, Settle)
    assert step.outcome.error is not None
    assert step.outcome.error["new_key_helps"] is True


def test_one_refused_attempt_among_innocent_deaths_counts():
    first, second = attempt(7), attempt(8, Purpose.RESIGN)
    deaths = {first.name: Proof("overtaken", {}), second.name: Proof("refused", {})}
    step = ask(record(first, second), Observation(proofs=deaths, clear=True))
    assert isinstance(step, Resign)
    assert step.counted is True


def poor(verdict: Verdict = Verdict.INSUFFICIENT_FUNDS) -> Observation:
    means = Finding(Word.FAIL, Purse("account", 5), 9)
    return Observation(
        reply=SendReply(verdict, "lacks 5"), means=means, lowest=True, clear=True, idle=True, sent_at=NOW
    )


def test_only_a_refusal_for_want_of_funds_ends_what_asks_for_too_much():
    assert isinstance(ask(record(), poor()), Kill)
    assert isinstance(ask(record(), poor(Verdict.ACCEPTED)), Wait)
    assert isinstance(ask(record(), replace(poor(), reply=None)), Wait)


def test_want_of_funds_ends_no_held_intent():
    assert isinstance(ask(record(status=Status.HELD), poor()), Wait)


def test_an_end_waits_for_no_ops_alone_and_only_for_those_that_may_land():
    own, again, young, old = (
        attempt(7),
        attempt(8, Purpose.RESIGN),
        attempt(8, Purpose.NOOP),
        attempt(9, Purpose.NOOP, signed_at=LONG_AGO),
    )
    final = {own.name: Sighting("final", replace(DONE, cost=100))}
    step = ask(record(own, again, old), Observation(sightings=final))
    assert isinstance(step, Settle), "what was signed again is no no-op"
    step = ask(record(own, young, old), Observation(sightings=final, proofs={young.name: Proof("expired", {})}))
    assert isinstance(step, Settle), "it is proven dead"
    paid = {**final, old.name: Sighting("final", replace(DONE, cost=4))}
    step = ask(record(own, again, old), Observation(sightings=paid))
    assert isinstance(step, Settle)
    assert step.outcome.cost == 104, "what was signed again is no part of what no-ops took"


def test_what_is_ended_by_a_no_op_waits_for_it_whoever_asked():
    own, noop = attempt(7), attempt(8, Purpose.NOOP, terms={"why": "bad signature"})
    dead = Observation(proofs={own.name: Proof("overtaken", {})})
    for cancelled in (False, True):
        step = ask(record(own, noop, cancel_requested=cancelled), dead)
        assert step == Wait("dead; its no-op may still land, and is what it cost")
