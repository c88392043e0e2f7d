"""Bytes that the caller signed are sent, looked up and told about; nothing else is ever made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.test_decide import EVM, record
from txmanager.core.chain import Proof, SendReply, Verdict
from txmanager.core.decide import Hold, Observation, Policy, Probe, Prove, Settle, Wait, decide
from txmanager.core.models import Attempt, Purpose
from txmanager.core.states import Status

NOW = 1_000_000_000
GIVEN = Attempt(7, "0xg", b"raw", Purpose.KEYLESS, NOW - 60_000)


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict.INSUFFICIENT_FUNDS,
        Verdict.UNDERPRICED,
        Verdict.REPLACEMENT_UNDERPRICED,
        Verdict.INVALID_FEE,
        Verdict.FEE_CAP_EXCEEDED,
        Verdict.PERMANENT,
    ],
)
def test_what_only_the_caller_can_cure_is_held_and_looked_at_again(verdict: Verdict):
    seen = Observation(reply=SendReply(verdict, "why"), sent_at=NOW, lowest=True, clear=True, idle=True)
    step = decide(record(GIVEN), seen, Policy(), EVM, NOW)
    assert isinstance(step, Hold)
    assert (step.reason, step.evidence["message"]) == (verdict, "why")
    assert isinstance(decide(record(GIVEN, status=Status.HELD), seen, Policy(), EVM, NOW), Wait)
    later = replace(seen, sent_at=NOW - 60_000)
    assert isinstance(decide(record(GIVEN, status=Status.HELD), later, Policy(), EVM, NOW), Probe)


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("status", [Status.INFLIGHT, Status.HELD])
@pytest.mark.parametrize("age", [0, 3_600_000, 90_000_000])
def test_given_bytes_are_never_replaced_killed_or_signed_again(verdict, cancelled, status, age):
    told = record(replace(GIVEN, signed_at=NOW - age), status=status, cancel_requested=cancelled)
    for proofs in ({}, {GIVEN.name: Proof("overtaken", {"final_nonce": "7"})}):
        seen = Observation(reply=SendReply(verdict), lowest=True, clear=True, idle=True, proofs=proofs)
        step = decide(told, seen, Policy(cancel_after_ms=1), EVM, NOW)
        assert isinstance(step, Wait | Probe | Prove | Hold | Settle)
        assert isinstance(step, Settle) == bool(proofs)


def test_given_bytes_end_when_others_used_their_number():
    for evidence, code in (({"landed": "0xother"}, "replaced"), ({"final_nonce": "7"}, "nonce_used")):
        seen = Observation(proofs={GIVEN.name: Proof("overtaken", evidence)})
        for status in (Status.INFLIGHT, Status.HELD):
            step = decide(record(GIVEN, status=status), seen, Policy(), EVM, NOW)
            assert isinstance(step, Settle)
            assert step.outcome.error is not None
            assert (step.outcome.status, step.outcome.error["code"]) == (Status.FAILED, code)
            assert set(step.deaths) == {GIVEN.name}


LONG = Policy(hold_after_ms=60_000)


def test_given_bytes_that_nobody_sees_are_held_after_one_try_to_prove_them_dead():
    fresh = Observation(sent_at=NOW)
    younger = record(replace(GIVEN, signed_at=NOW - 59_999))
    assert isinstance(decide(younger, fresh, LONG, EVM, NOW), Wait)
    assert isinstance(decide(record(GIVEN), fresh, LONG, EVM, NOW), Prove)
    step = decide(record(GIVEN), replace(fresh, unproven=True), LONG, EVM, NOW)
    assert step == Hold("no_proof", {"attempts": [GIVEN.name], "message": "neither landed nor provably dead"})
    held = record(GIVEN, status=Status.HELD)
    for unproven in (False, True):
        assert isinstance(decide(held, replace(fresh, unproven=unproven), LONG, EVM, NOW), Wait)


@pytest.mark.parametrize("verdict", [Verdict.ACCEPTED, Verdict.UNAVAILABLE, Verdict.NONCE_GAP, Verdict.BUSY])
def test_what_the_caller_cannot_cure_is_not_held(verdict: Verdict):
    seen = Observation(reply=SendReply(verdict), sent_at=NOW)
    assert isinstance(decide(record(GIVEN), seen, Policy(), EVM, NOW), Wait)


def test_given_bytes_are_sent_again_when_their_time_is_over_and_not_before():
    policy = Policy(include_within_ms=1_000)
    for age, expected in ((0, Wait), (999, Wait), (1_000, Probe), (-1, Probe)):
        assert isinstance(decide(record(GIVEN), Observation(sent_at=NOW - age), policy, EVM, NOW), expected)


def test_a_used_number_may_be_tried_under_a_new_key():
    step = decide(record(GIVEN), Observation(proofs={GIVEN.name: Proof("overtaken", {})}), Policy(), EVM, NOW)
    assert isinstance(step, Settle)
    assert step.outcome.error is not None
    assert step.outcome.error["new_key_helps"] is True
