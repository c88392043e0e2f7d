"""The demo's judgement: whatever promise breaks, it says so. The story itself is told by the README's test."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from txmanager.core.models import Attempt, Purpose, Record, new_intent
from txmanager.core.states import Status
from txmanager.demo import Report
from txmanager.demo.audit import nonces_used_twice, order_violations
from txmanager.demo.plan import make_plan
from txmanager.demo.report import different_answers, percentile

GOOD = Report(
    requests=13,
    answered=13,
    replayed=3,
    unique=10,
    duplicates=3,
    done=10,
    created=10,
    transactions=10,
    invalid_nonce=0,
    overtaken=2,
    order_violations=0,
    different_answers=0,
    killed="worker-1",
    in_flight_at_kill=4,
    p50_s=0.5,
    p99_s=2.0,
    took_s=20.0,
)


def test_a_run_that_kept_every_promise_has_nothing_to_say():
    assert list(GOOD.broken()) == []
    assert dict(GOOD.rows())["created on chain"] == "10"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answered": 12}, "1 requests got no answer"),
        ({"done": 9}, "1 intents are not done"),
        ({"created": 9}, "10 accounts were requested, 9 are on chain"),
        ({"transactions": 11}, "something was paid twice"),
        ({"replayed": 2}, "1 duplicates were accepted as new intents"),
        ({"different_answers": 1}, "1 retries got a different answer"),
        ({"invalid_nonce": 1}, "share a nonce with another one"),
        ({"order_violations": 1}, "1 first attempts out of order"),
        ({"in_flight_at_kill": 0}, "proves nothing about crashes"),
    ],
)
def test_each_broken_promise_is_named(change, words):
    [sentence] = replace(GOOD, **change).broken()
    assert words in sentence


def record(position: str, *nonces: int, lane: str = "near:net:a:b") -> Record:
    intent = new_intent(key=f"k{position}", pool="p", kind="k", payload={})
    purposes = [Purpose.FIRST, *[Purpose.RESIGN] * (len(nonces) - 1)]
    attempts = tuple(
        Attempt(nonce, f"h{nonce}", b"", purpose, 0) for nonce, purpose in zip(nonces, purposes, strict=True)
    )
    return Record(intent, lane, "life", Status.DONE, position, 0, 0, attempts)


def test_order_is_that_of_acceptance_and_of_first_attempts_alone():
    assert order_violations([record("10-0", 3), record("9-0", 1), record("9-1", 2)]) == 0
    assert order_violations([record("9-0", 2), record("10-0", 1)]) == 1
    assert order_violations([record("9-0", 1, 5), record("10-0", 2)]) == 0
    assert order_violations([record("9-0", 2), record("10-0", 1, lane="near:net:a:c")]) == 0


def test_a_nonce_of_two_transactions_of_one_lane_is_found():
    assert nonces_used_twice([record("1-0", 1), record("2-0", 2, 3), record("3-0", 1, lane="near:net:a:c")]) == 0
    assert nonces_used_twice([record("1-0", 1), record("2-0", 2, 1)]) == 1


def test_a_retry_with_another_outcome_is_found():
    answers = [{"key": "a", "status": "done", "tx_hash": "1"}, {"key": "b", "status": "done", "tx_hash": "2"}]
    assert different_answers([*answers, answers[0]]) == 0
    assert different_answers([*answers, {"key": "a", "status": "done", "tx_hash": "2"}]) == 1


@pytest.mark.parametrize("seed", range(5))
def test_every_retry_of_a_plan_comes_from_another_process(seed):
    plans = make_plan(100, 30, 4, "relayer.near", random.Random(seed))
    asked = [ask for plan in plans for ask in plan]
    assert (len(asked), len(set(asked))) == (130, 100)
    for plan in plans:
        assert len(set(plan)) == len(plan)
    assert plans == make_plan(100, 30, 4, "relayer.near", random.Random(seed))


def test_percentiles():
    assert percentile([], 0.5) == 0
    assert percentile([float(n) for n in range(100)], 0.99) == 99
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2
