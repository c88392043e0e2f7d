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
