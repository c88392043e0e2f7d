"""How a lane stands against its chain, from facts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txmanager.core.alerts import FOR_THE_OWNER, Alert
from txmanager.core.health import Health, Limits, Reading, hashes_of, health
from txmanager.core.models import Attempt, Lane, LaneSpec, Purpose, Record, new_intent
from txmanager.core.reservations import Book, Reservation
from txmanager.core.states import LaneState, Status

ID = "evm:1:0x" + "22" * 20
NOW = 10_000_000
LIMITS = Limits()


def lane(cursor: int | None = 7, **more: Any) -> Lane:
    state = more.pop("state", LaneState.ACTIVE)
    return Lane(LaneSpec(ID, "p"), state, cursor=cursor, **{"lease_ms": 1, **more})


def record(nonce: int, *hashes: str, age_ms: int = 60_000) -> Record:
    intent = new_intent(key=f"k{nonce}", pool="p", kind="evm.transfer", payload={"to": "0x" + "11" * 20, "value": "1"})
    attempts = tuple(
        Attempt(nonce, hash, b"", Purpose.FIRST, NOW - age_ms + n, terms={"max_fee_per_gas": str(9 + n)})
        for n, hash in enumerate(hashes or (f"h{nonce}",))
    )
    return Record(intent, ID, "l", Status.INFLIGHT, "1-0", 0, 0, attempts)


def reading(latest: int, *known: str, **more: Any) -> Reading:
    return Reading(
        **{"latest": latest, "balance": 1_000, "height": 50, "pool": None, "known": frozenset(known), **more}
    )


def ask(of: Lane, records: list[Record], told: Reading, **more: Any) -> Health:
    return health(of, records, told, more.pop("limits", LIMITS), NOW, **more)


def test_what_is_on_its_way_is_healthy():
    seen = ask(lane(7), [record(5), record(6)], reading(5, "h5", "h6", pool=7))
    assert seen.healthy
    assert (seen.tracked_nonce, seen.chain_nonce, len(seen.pending), seen.oldest_pending_ms) == (7, 5, 2, 60_000)
    assert (seen.waits_for, seen.gaps, seen.pending[0].fee) == (5, (), "9")


def test_only_the_lowest_nonce_is_stuck_and_only_for_as_long_as_it_is_the_lowest():
    records = [record(5, age_ms=400_000), record(6, age_ms=2_000_000)]
    told = reading(5, "h5", "h6")
    assert set(ask(lane(), records, told).alerts) == {Alert.STUCK}
    evidence = {"nonce": "5", "hash": "h5", "age_s": 400, "max_fee_per_gas": "9"}
    assert ask(lane(), records, told).alerts[Alert.STUCK] == evidence
    assert ask(lane(), records, told, since=NOW - 10_000).healthy
    old = [record(5, age_ms=1_800_000)]
    assert set(ask(lane(6), old, reading(5, "h5")).alerts) == {Alert.STUCK, Alert.OVERDUE}


def test_bytes_that_no_node_knows_are_dropped_once_they_are_old_enough():
    told = reading(5, "h5", "h6b")
    assert ask(lane(), [record(5), record(6, "h6a", "h6b")], told).healthy, "one hash of a nonce is enough"
    lost = ask(lane(), [record(5), record(6)], reading(5, "h5"))
    assert lost.alerts[Alert.DROPPED]["nonces"] == ["6"]
    assert ask(lane(), [record(5), record(6, age_ms=9_999)], reading(5, "h5")).healthy


def test_numbers_of_nobody_are_gaps_settled_ones_and_those_of_records_are_not():
    assert ask(lane(9, landed=4), [record(6)], reading(5, "h6")).gaps == (5, 7, 8)
    assert ask(lane(9, landed=5), [record(6)], reading(5, "h6")).gaps == (7, 8)
    assert ask(lane(9), [record(6)], reading(7, "h6")).gaps == (7, 8)


def test_a_chain_that_went_back_or_is_far_behind_is_drift():
    assert Alert.DRIFT in ask(lane(9, landed=6), [], reading(6)).alerts
    assert Alert.DRIFT not in ask(lane(9, landed=6), [record(7), record(8)], reading(7, "h7", "h8")).alerts
    far = [record(n) for n in range(5, 75)]
    assert Alert.DRIFT in ask(lane(75), far, reading(5, *hashes_of(far))).alerts
    for behind, said in ((LIMITS.drift, False), (LIMITS.drift + 1, True)):
        some = [record(n) for n in range(5, 5 + behind)]
        assert (Alert.DRIFT in ask(lane(5 + behind), some, reading(5, *hashes_of(some))).alerts) is said


@pytest.mark.parametrize(("latest", "pool"), [(8, None), (8, 8), (5, 8)])
def test_a_chain_or_a_pool_beyond_the_cursor_is_foreign_use(latest, pool):
    told = reading(latest, "h5", "h6", pool=pool)
    assert Alert.FOREIGN in ask(lane(7), [record(5), record(6)], told).alerts
    assert Alert.FOREIGN not in ask(lane(7), [record(5), record(6)], told, cursor=8).alerts, "we moved it meanwhile"


def test_a_used_nonce_whose_hashes_nobody_knows_is_foreign_use():
    assert Alert.FOREIGN in ask(lane(7), [record(5), record(6)], reading(6, "h6")).alerts
    assert ask(lane(7), [record(5), record(6)], reading(6, "h5", "h6")).healthy, "included, not final"
    assert set(ask(lane(7), [record(6)], reading(6)).alerts) == {Alert.DROPPED}, "nobody used the next one"
    young = [record(5, age_ms=LIMITS.dropped_after_ms - 1), record(6)]
    assert ask(lane(7), young, reading(6, "h6")).healthy, "the node may not have heard of it"


def test_a_stopped_lane_and_one_without_an_owner_are_said():
    stopped = ask(lane(5, state=LaneState.QUARANTINED, reason="why"), [], reading(5))
    assert stopped.alerts == {Alert.STOPPED: {"state": "quarantined", "reason": "why"}}
    assert set(ask(lane(5, depth=1, lease_ms=0), [], reading(5)).alerts) == {Alert.UNOWNED}
    assert ask(lane(5, lease_ms=0), [], reading(5)).healthy
    assert ask(lane(5, depth=1), [], reading(5)).healthy, "somebody serves it"
    assert ask(lane(5, depth=1, lease_ms=0, state=LaneState.CLOSED), [], reading(5)).healthy
    assert not {Alert.STOPPED, Alert.UNOWNED} & FOR_THE_OWNER


def test_a_lane_that_was_never_used_is_healthy_whatever_its_address_did_before():
    assert ask(lane(None), [], reading(0)).healthy
    assert ask(lane(None), [], reading(5, pool=6)).healthy
    assert ask(lane(None), [], reading(5)).tracked_nonce == 5
    assert ask(lane(None), [], reading(5, pool=6)).tracked_nonce == 6
    assert [ask(lane(cursor), [], reading(0)).tracked_nonce for cursor in (None, 0)] == [0, 0]


def test_of_what_was_not_asked_nothing_is_said():
    told = reading(6, asked=frozenset({"h7"}))
    seen = ask(lane(8), [record(5), record(6), record(7)], told)
    assert seen.alerts == {Alert.DROPPED: {"nonces": ["7"], "hash": "h7"}}
    assert hashes_of([record(5), record(6, "a", "b")], 6) == ["a", "b"]


def test_a_keyless_lane_counts_from_its_book():
    keyless = replace(lane(None), spec=LaneSpec(ID, "p", keyless=True))
    seen = ask(keyless, [], reading(3), book=Book(next_nonce=3))
    assert (seen.healthy, seen.tracked_nonce) == (True, 3)
    sent = Reservation("default/t", 6, "sent", NOW, NOW)
    left = ask(keyless, [], reading(3), book=Book(next_nonce=7, reserved=(sent,), reuse=(2, 3, 5)))
    assert left.gaps == (3, 5), "what the chain used is no gap"
    assert left.alerts[Alert.GAP] == {"nonces": ["3", "5"], "count": 2}
    assert Alert.FOREIGN in ask(keyless, [], reading(4), book=Book(next_nonce=3)).alerts


@settings(deadline=None)
@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_node_that_lags_makes_no_number_look_used_and_no_gap_of_what_was_settled(base, settled, inflight, lag):
    """Whatever part of the truth a node has: nothing but drift is said of a healthy lane."""
    cursor = base + settled + inflight
    true_latest = base + settled
    landed = true_latest - 1 if settled else None
    records = [record(n) for n in range(true_latest, cursor)]
    told = reading(max(base, true_latest - lag), *hashes_of(records))
    seen = ask(lane(cursor, landed=landed), records, told)
    assert not seen.gaps
    assert set(seen.alerts) <= {Alert.DRIFT}
