"""What `decide` makes of what nodes say: final hashes, nodes that disagree, the dead beside the living."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.test_decide import DONE, NEAR, NOW, POLICY, attempt, record
from txmanager.core.chain import Doubt, Proof, SendReply, Sighting, Verdict
from txmanager.core.decide import Hold, Kill, Observation, Prove, Resign, Settle, Step, Wait, decide
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
