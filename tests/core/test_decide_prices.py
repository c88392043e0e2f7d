"""Where attempts share a nonce, `decide` asks for better prices: when, for whom, and never past a cap or a hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
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
    Replace,
    Settle,
    Step,
    Wait,
    decide,
)
from txmanager.core.funds import Finding, Purse, Word
from txmanager.core.kills import Doom, KillCause
from txmanager.core.models import Attempt, Outcome, Purpose, Record, new_intent
from txmanager.core.states import Status

NEAR = Traits(gaps_block=False, overtaking_kills=True, replaces=False)
EVM = Traits(gaps_block=True, overtaking_kills=False, replaces=True)
POLICY = Policy(include_within_ms=1_000, replace_after_ms=5_000, hold_after_ms=600_000)
NOW = 1_000_000


def attempt(hash: str = "a", purpose: Purpose = Purpose.FIRST, age_ms: int = 100) -> Attempt:
    return Attempt(7, hash, b"", purpose, NOW - age_ms)


def record(*attempts: Attempt, status: Status = Status.INFLIGHT, **more: Any) -> Record:
    intent = new_intent(key="k", pool="p", kind="evm.transfer", payload={"to": "0x" + "11" * 20, "value": "1"})
    return Record(intent, "evm:1:0x" + "22" * 20, "l", status, "1-0", 0, 0, attempts or (attempt(),), **more)


def seen(verdict: Verdict | None = Verdict.ACCEPTED, **more: Any) -> Observation:
    reply = SendReply(verdict, "words") if verdict else None
    return Observation(**{"sent_at": NOW - 10, "reply": reply, "lowest": True, **more})


def ask(of: Record, observed: Observation, traits: Traits = EVM) -> Step:
    return decide(of, observed, POLICY, traits, NOW)


OLD = attempt(age_ms=5_000)


def test_the_lowest_nonce_that_is_late_gets_a_better_price():
    assert isinstance(ask(record(OLD), seen()), Replace)
    assert isinstance(ask(record(OLD), seen(None)), Replace)


def test_a_higher_nonce_waits_for_the_lowest():
    assert isinstance(ask(record(OLD), seen(lowest=False)), Wait)


def test_the_age_of_the_newest_attempt_counts():
    assert isinstance(ask(record(OLD, attempt("b", Purpose.REPLACE, 4_999)), seen()), Wait)
    assert isinstance(ask(record(OLD, attempt("b", Purpose.REPLACE, 5_000)), seen()), Replace)


@pytest.mark.parametrize("verdict", [Verdict.UNDERPRICED, Verdict.REPLACEMENT_UNDERPRICED, Verdict.INVALID_FEE])
def test_a_price_that_a_node_refuses_is_raised_soon_but_not_in_a_race(verdict):
    assert isinstance(ask(record(attempt(age_ms=1_000)), seen(verdict, lowest=False)), Replace)
    assert isinstance(ask(record(attempt(age_ms=999)), seen(verdict)), Wait)


@pytest.mark.parametrize(
    "verdict", [Verdict.UNAVAILABLE, Verdict.RATE_LIMITED, Verdict.BUSY, Verdict.UNKNOWN, Verdict.NONCE_GAP]
)
def test_what_is_not_about_the_price_does_not_raise_it(verdict):
    assert not isinstance(ask(record(OLD), seen(verdict)), Replace)


def test_at_the_cap_it_waits_and_asks_again():
    assert isinstance(ask(record(OLD), seen(priced_out=True)), Wait)
    assert isinstance(ask(record(OLD), seen(priced_out=True, sent_at=0)), Probe)


def test_a_nodes_own_cap_stops_bumping_and_republishes_the_one_before():
    newer = attempt("b", Purpose.REPLACE, 6_000)
    older = attempt("a", age_ms=9_000)
    step = ask(record(older, newer), seen(Verdict.FEE_CAP_EXCEEDED, sent_at=0))
    assert step == Probe(older, "not included in time")


def test_the_dearest_of_a_nonce_is_the_one_that_is_sent_again():
    newer = attempt("b", Purpose.REPLACE, 2_000)
    step = ask(record(attempt("a", age_ms=9_000), newer), seen(sent_at=0))
    assert step == Probe(newer, "not included in time")


def test_a_held_intent_is_not_bumped():
    assert not isinstance(ask(record(OLD, status=Status.HELD), seen()), Replace)


def test_a_cancel_kills_at_once_and_a_stuck_no_op_is_bumped_in_turn():
    assert isinstance(ask(record(attempt(), cancel_requested=True), seen()), Kill)
    noop = attempt("n", Purpose.NOOP, 5_000)
    assert isinstance(ask(record(OLD, noop, cancel_requested=True), seen()), Replace)
    assert isinstance(ask(record(OLD, attempt("n", Purpose.NOOP), cancel_requested=True), seen()), Wait)
    assert not isinstance(ask(record(OLD, cancel_requested=True), seen(priced_out=True)), Kill)


def test_an_included_no_op_asks_for_a_proof_and_an_included_rival_waits():
    noop = attempt("n", Purpose.NOOP)
    there = {noop.name: Sighting("included")}
    assert isinstance(ask(record(OLD, noop, cancel_requested=True), seen(sightings=there)), Prove)
    there = {OLD.name: Sighting("included")}
    assert isinstance(ask(record(OLD, noop, cancel_requested=True), seen(sightings=there)), Wait)


def test_any_hash_of_the_nonce_that_is_final_settles_with_itself():
    newer = attempt("b", Purpose.REPLACE, 2_000)
    for landed in (OLD, newer):
        step = ask(record(OLD, newer), seen(sightings={landed.name: Sighting("final", Outcome(Status.DONE))}))
        assert isinstance(step, Settle)
        assert step.outcome.tx_hash == landed.hash


def test_a_word_about_the_nonce_alone_settles_nothing():
    assert isinstance(ask(record(OLD), seen(Verdict.NONCE_TOO_LOW)), Prove)


@given(
    st.sampled_from([None, *Verdict]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 100_000),
    st.sampled_from([Status.INFLIGHT, Status.HELD]),
    st.booleans(),
)
def test_where_attempts_own_their_nonce_no_price_is_ever_raised(verdict, lowest, priced_out, age, status, cancel):
    observed = seen(verdict, lowest=lowest, priced_out=priced_out, sent_at=NOW - age)
    step = ask(record(attempt(age_ms=age), status=status, cancel_requested=cancel), observed, NEAR)
    assert not isinstance(step, Replace)


# -- what is late

GIVES_UP = Policy(include_within_ms=1_000, replace_after_ms=5_000, cancel_after_ms=60_000)


def late(of: Record, observed: Observation, policy: Policy = GIVES_UP, traits: Traits = EVM) -> Step:
    return decide(of, observed, policy, traits, NOW)


def test_what_waited_behind_another_is_not_late_itself():
    assert isinstance(ask(record(OLD), seen(lowest_since=NOW - 4_999)), Wait)
    assert isinstance(ask(record(OLD), seen(lowest_since=NOW - 5_000)), Replace)
    old = attempt(age_ms=60_000)
    assert not isinstance(late(record(old), seen(lowest_since=NOW - 59_999)), Kill)


def test_the_lowest_nonce_is_given_up_when_the_policy_says_so_and_only_then():
    first, newest = attempt(age_ms=60_000), attempt("b", Purpose.REPLACE, 100)
    step = late(record(first, newest), seen())
    assert isinstance(step, Kill)
    assert step.doom == Doom(KillCause.OVERDUE, "not included within 60 s")
    assert isinstance(ask(record(first, newest), seen()), Wait), "no policy, no cancel"
    assert not isinstance(late(record(first), seen(lowest=False)), Kill)
    assert not isinstance(late(record(attempt(age_ms=59_999)), seen()), Kill)
    assert not isinstance(late(record(first, status=Status.HELD), seen()), Kill)
    assert not isinstance(late(record(first), seen(priced_out=True)), Kill)
    assert not isinstance(late(record(first), seen(sightings={first.name: Sighting("included")})), Kill)


def test_without_funds_the_lane_is_paused_and_nothing_is_given_up():
    poor = Finding(Word.PAUSE, Purse("account", 1), 2)
    assert isinstance(late(record(attempt(age_ms=60_000)), seen(Verdict.INSUFFICIENT_FUNDS, means=poor)), Pause)
    assert isinstance(late(record(attempt(age_ms=60_000)), seen(Verdict.INSUFFICIENT_FUNDS)), Wait)


def test_what_was_given_up_ends_cancelled_when_its_no_op_is_final_and_done_when_it_landed():
    noop = Attempt(7, "n", b"", Purpose.NOOP, NOW, terms={"why": "not included within 60 s"})
    first = attempt(age_ms=60_000)
    of = record(first, noop)
    proof = Proof("overtaken", {"landed": "n"})
    end = late(of, seen(proofs={first.name: proof}, sightings={noop.name: Sighting("final", Outcome(Status.DONE))}))
    assert isinstance(end, Settle)
    assert end.outcome.status is Status.CANCELLED
    assert end.outcome.error is not None
    assert end.outcome.error["code"] == "not_included"
    landed = late(of, seen(sightings={first.name: Sighting("final", Outcome(Status.DONE))}))
    assert isinstance(landed, Settle)
    assert landed.outcome.status is Status.DONE


# -- what each arm must leave to the next


PATIENT = Policy(include_within_ms=1_000, replace_after_ms=5_000, hold_after_ms=10_000)


def test_the_age_of_an_intent_is_that_of_its_newest_bytes():
    bumped = record(attempt(age_ms=10_000), attempt("b", Purpose.REPLACE, 9_999))
    assert not isinstance(decide(bumped, seen(unproven=True), PATIENT, EVM, NOW), Hold | Prove)
    lone = record(attempt(age_ms=10_000))
    assert isinstance(decide(lone, seen(unproven=True), PATIENT, EVM, NOW), Hold)


@pytest.mark.parametrize("unproven", [False, True])
def test_a_held_intent_is_not_proven_again_for_its_age(unproven):
    held = record(attempt(age_ms=20_000), status=Status.HELD)
    assert isinstance(decide(held, seen(unproven=unproven), PATIENT, EVM, NOW), Wait)


def test_one_of_several_no_ops_on_chain_asks_for_the_proof():
    noops = [attempt("n", Purpose.NOOP), attempt("m", Purpose.NOOP)]
    for there in noops:
        step = ask(record(OLD, *noops, cancel_requested=True), seen(sightings={there.name: Sighting("included")}))
        assert isinstance(step, Prove)


def test_what_asks_for_too_much_is_killed_and_pauses_no_lane_however_old_it_is():
    too_much = Finding(Word.FAIL, Purse("account", 1), 2)
    step = ask(record(attempt(age_ms=4_000)), seen(Verdict.INSUFFICIENT_FUNDS, means=too_much))
    assert isinstance(step, Kill)


def test_a_key_that_signs_no_no_op_asks_for_a_proof_only_of_what_must_end():
    for traits in (NEAR, EVM):
        assert isinstance(ask(record(), seen(killable=False), traits), Wait)


def test_where_overtaking_kills_an_idle_lane_alone_allows_no_no_op():
    cancelled = record(cancel_requested=True)
    assert isinstance(ask(cancelled, seen(idle=True), NEAR), Wait)
    assert isinstance(ask(cancelled, seen(idle=True, clear=True), NEAR), Kill)


def test_what_is_being_killed_is_not_given_up_once_more():
    old = attempt(age_ms=60_000)
    assert not isinstance(late(record(old, attempt("n", Purpose.NOOP)), seen()), Kill)
    # Where a no-op could overtake somebody, a cancelled intent waits, however late it is.
    assert not isinstance(late(record(old, cancel_requested=True), seen(), traits=NEAR), Kill)


@pytest.mark.parametrize("more", [{"priced_out": True}, {"status": Status.HELD}, {"traits": NEAR}])
def test_a_price_that_a_node_refuses_is_not_raised_past_a_cap_a_hold_or_where_nothing_is_replaced(more):
    of = record(OLD, status=more.get("status", Status.INFLIGHT))
    observed = seen(Verdict.UNDERPRICED, priced_out=more.get("priced_out", False))
    assert not isinstance(ask(of, observed, more.get("traits", EVM)), Replace)
