"""What a wake-up brought, as the plan keeps it: used once, and never instead of a take that is due."""

from __future__ import annotations

import pytest

from tests.core.test_decide import NEAR
from tests.core.test_lane_plan import NOW, POLICY, flight, lane, next_of, plan
from txmanager.core.keyless_plan import KeylessPlan
from txmanager.core.lane_plan import LanePlan
from txmanager.core.ledger import Taken
from txmanager.core.models import new_intent
from txmanager.core.states import LaneState


def entry(place: int) -> Taken:
    intent = new_intent(key=f"k{place}", pool="p", kind="near.transfer", payload={})
    return Taken(intent, "life", f"{place}-0", place, digest="d")


def idle() -> LanePlan:
    """A lane whose queue was taken and found empty."""
    made = plan()
    made.take_begins()
    made.took([], 4)
    assert next_of(made) == "nothing"
    return made


def test_offer_to_an_idle_lane_is_used_once_and_needs_no_take() -> None:
    made = idle()
    made.offer(entry(5))
    assert next_of(made) == "Take 4"
    assert made.accept_offer() == entry(5)
    made.head.signed("5-0")
    assert next_of(made) == "nothing"


def test_offer_is_not_used_while_a_take_is_due() -> None:
    made = idle()
    made.take_again()
    made.offer(entry(5))
    assert next_of(made) == "Take 4"
    assert made.accept_offer() is None


def test_take_that_becomes_due_drops_the_offer() -> None:
    made = idle()
    made.offer(entry(5))
    made.take_again()
    assert made.accept_offer() is None
    assert next_of(made) == "Take 4"


def test_second_offer_before_the_first_is_used_makes_a_take_due() -> None:
    made = idle()
    made.offer(entry(5))
    made.offer(entry(6))
    assert made.accept_offer() is None
    assert next_of(made) == "Take 4"


def test_second_offer_while_the_first_is_signed_waits_for_it() -> None:
    made = idle()
    made.offer(entry(5))
    made.accept_offer()
    made.offer(entry(6))
    made.head.signed("5-0")
    assert made.accept_offer() == entry(6)


def test_offer_that_could_not_be_used_leaves_a_take_due() -> None:
    made = idle()
    made.offer(entry(5))
    made.accept_offer()
    made.take_again()
    assert next_of(made) == "Take 4"


@pytest.mark.parametrize("place", [3, 5])
def test_offer_of_what_was_taken_or_signed_before_is_not_used(place: int) -> None:
    made = idle()
    made.head.took("5-0")
    made.offer(entry(place))
    assert made.accept_offer() is None
    assert next_of(made) == "Take 4"


def test_offer_that_a_take_under_way_answers_too_is_not_used() -> None:
    made = plan()
    made.take_begins()
    made.offer(entry(5))
    made.took(["5-0"], 4)
    assert made.accept_offer() is None


def test_offer_behind_a_take_under_way_is_used_after_it() -> None:
    made = plan()
    made.take_begins()
    made.offer(entry(6))
    made.took(["5-0"], 4)
    assert made.accept_offer() == entry(6)


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.QUARANTINED])
def test_stopped_lane_uses_no_offer(state: LaneState) -> None:
    made = idle()
    made.offer(entry(5))
    made.is_in(state)
    assert next_of(made) == "nothing"
    made.is_in(LaneState.ACTIVE)
    assert next_of(made) == "Take 4"


def test_lane_that_is_handed_back_uses_no_offer() -> None:
    made = idle()
    made.offer(entry(5))
    made.stop_taking()
    assert next_of(made) == "nothing"


def test_bytes_of_a_refused_offer_that_are_recorded_later_count_from_where_their_record_stands() -> None:
    """The offer may have lied about its place; signed again after a take, the bytes are the same."""
    made, signed = plan(), flight(9).record
    made.head.gave_up({signed.attempts[0].name: "777-0"})
    made.head.own([signed])
    assert (made.head.cursor, made.head.signed_upto) == (10, signed.position)


def test_keyless_lane_takes_whatever_a_wake_up_brings() -> None:
    made = KeylessPlan(POLICY, NEAR, lane(keyless=True))
    made.take_begins()
    made.offer(entry(5))
    assert made.accept_offer() is None
    assert next_of(made, NOW) == "Take 4"
