"""Numbers of nobody: when one is empty, when its no-op is due, sent, sent again and offered more for."""

from __future__ import annotations

from txmanager.core.gaps import AT_ONCE, Gaps, fill_intent, fill_record
from txmanager.core.kinds import FILL, FILL_KEY
from txmanager.core.models import Attempt, IntentId, Outcome, Purpose
from txmanager.core.positions import START
from txmanager.core.states import Status
from txmanager.core.steps import Policy

POLICY = Policy(include_within_ms=1_000, fill_after_ms=2_000, replace_after_ms=9_000)
NOW = 100_000


def gaps() -> Gaps:
    return Gaps(POLICY, block=True)


def noop(nonce: int, signed_at: int = NOW, fee: str = "") -> Attempt:
    return Attempt(nonce, f"hash{nonce}{signed_at}{fee}", b"raw", Purpose.NOOP, signed_at)


def test_a_lane_without_gaps_has_nothing_to_do() -> None:
    made = gaps()
    assert not made
    assert (made.floor, made.due(NOW), made.unsent(NOW), made.landed) == (None, [], [], -1)


def test_a_number_is_filled_only_after_it_was_seen_empty_for_a_while() -> None:
    made = gaps()
    assert made.saw([3, 4], NOW) == [3, 4]
    assert made.saw([4, 5], NOW + 500) == [5], "only what is new is named"
    assert made
    assert made.floor == 4
    assert made.due(NOW + 1_999) == []
    assert made.due(NOW + 2_000) == [4]
    assert made.due(NOW + 2_500) == [4, 5]
    made.forget()
    assert not made


def test_no_more_are_named_than_may_be_out_and_none_that_somebody_has() -> None:
    made = gaps()
    made.left([noop(0), noop(2)])
    found = made.unowned(range(100), {1, 3})
    assert found == [n for n in range(100) if n > 3][:AT_ONCE]


def test_what_is_out_takes_room_from_what_is_empty() -> None:
    made = gaps()
    made.left([noop(n) for n in range(AT_ONCE - 2)])
    made.saw(range(50, 60), NOW - 5_000)
    assert made.due(NOW) == [50, 51]
    made.left([noop(n) for n in range(AT_ONCE + 5)])
    assert made.due(NOW) == []


def test_a_no_op_is_sent_at_once_and_again_when_it_is_late() -> None:
    made = gaps()
    made.saw([3, 9], NOW - 5_000)
    made.sent(NOW)
    made.filled([noop(3), noop(4, NOW - 50), noop(4)])
    assert made.empty == {9: NOW - 5_000}
    assert made.floor == 3
    assert made.unsent(NOW) == [noop(3), noop(4)], "the newest of each number"
    made.sent(NOW)
    assert made.unsent(NOW) == []
    assert made.unsent(NOW + 999) == []
    assert len(made.unsent(NOW + 1_000)) == 2
    assert len(made.unsent(NOW - 1)) == 2, "a clock that was set back tells no age"
    made.send_again()
    assert len(made.unsent(NOW)) == 2
    assert len(made.unsent(POLICY.include_within_ms)) == 2, "counted from nought"
    made.left([])
    assert made.unsent(NOW) == []


def test_only_the_lowest_no_op_is_offered_more_for_counted_from_its_newest_bytes() -> None:
    made = gaps()
    made.left([noop(3, NOW - 20_000), noop(3, NOW - 9_000), noop(4, NOW - 20_000)])
    assert made.due(NOW - 1) == []
    assert made.due(NOW) == [3]
    made.saw([1], NOW - 5_000)
    assert made.due(NOW) == [1, 3]
    assert made.floor == 1


def test_a_price_above_the_cap_is_not_asked_for_again_at_once() -> None:
    made = gaps()
    made.saw([3], NOW - 5_000)
    made.priced_out(NOW)
    assert made.due(NOW + 8_999) == []
    assert made.due(NOW + 9_000) == [3]


def test_the_highest_settled_nonce_only_grows() -> None:
    made = gaps()
    made.settled(7)
    made.settled(5)
    assert made.landed == 7


def test_a_send_at_the_beginning_of_time_is_due() -> None:
    made = gaps()
    made.left([noop(3)])
    assert made, "what is out is a gap, too"
    assert made.unsent(0) == []
    assert made.unsent(POLICY.include_within_ms) == [noop(3)]


def test_a_no_op_that_nobody_asked_for_has_a_name_of_its_own() -> None:
    made = fill_intent("p", noop(3))
    assert made.id == IntentId("p", FILL_KEY + noop(3).hash)
    assert (made.kind, made.partition_key) == (FILL, made.id.key)


def test_an_archive_keeps_a_no_op_by_its_hash_and_leaves_the_time_to_the_ledger() -> None:
    landed = Attempt(3, "0x" + "ab" * 32, b"raw", Purpose.NOOP, NOW)
    outcome = Outcome(Status.DONE, landed.hash, 3, cost=21_000)
    kept = fill_record("p", "lane", landed, outcome)
    assert kept.intent == fill_intent("p", landed)
    assert (kept.lane, kept.life, kept.status) == ("lane", "ab" * 16, Status.DONE)
    assert (kept.attempts, kept.outcome) == ((landed,), outcome)
    assert (kept.position, kept.created_at, kept.updated_at) == (START, 0, 0)
