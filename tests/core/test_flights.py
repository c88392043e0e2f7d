"""The room of a lane's window: what takes a slot, and what gives it back."""

from __future__ import annotations

import pytest

from txmanager.core.chain import SendReply, Sighting, Verdict
from txmanager.core.decide import Policy
from txmanager.core.flights import SINGLE_FOR_MS, Flight, Flights
from txmanager.core.models import Attempt, Purpose, Record, new_intent
from txmanager.core.states import Status


def flight(number: int) -> Flight:
    attempt = Attempt(number, f"hash{number}", b"", Purpose.FIRST, 0)
    intent = new_intent(key=f"k{number}", pool="p", kind="near.transfer", payload={})
    return Flight(Record(intent, "near:x:y:z", "life", Status.INFLIGHT, f"1-{number}", 0, 0, (attempt,)))


def lane(window: int, *flights: Flight, max_inflight: int = 100) -> Flights:
    all_flights = Flights(Policy(window=window, max_inflight=max_inflight))
    all_flights.replace_all(flights)
    return all_flights


def test_a_slot_is_free_again_when_the_chains_nonce_has_reached_the_attempt():
    one, two = flight(1), flight(2)
    flights = lane(2, one, two)
    assert flights.room() == 0
    one.reply = SendReply(Verdict.ACCEPTED)
    assert flights.room() == 0
    one.reply = SendReply(Verdict.ACCEPTED, reached=True)
    assert flights.room() == 1


def test_a_window_of_one_waits_for_the_end_whatever_the_nonce():
    one = flight(1)
    one.reply = SendReply(Verdict.ACCEPTED, reached=True)
    one.sightings[one.record.attempts[0].name] = Sighting("included")
    assert lane(1, one).room() == 0


def test_what_was_reached_still_counts_against_the_unsettled():
    flights = [flight(n) for n in range(4)]
    for one in flights:
        one.reply = SendReply(Verdict.ACCEPTED, reached=True)
    assert lane(16, *flights, max_inflight=5).room() == 1


@pytest.mark.parametrize("where", ["included", "final"])
def test_an_attempt_on_chain_is_not_open_and_frees_its_slot(where):
    one = flight(1)
    assert one.open == list(one.record.attempts)
    one.sightings[one.record.attempts[0].name] = Sighting(where)
    assert one.open == []
    assert lane(1 + 1, one).room() == 2


def observed(flights: Flights, now: int, floor: int | None = None) -> list[tuple[bool, int]]:
    told = flights.observe_all(queue_empty=True, now=now, floor=floor)
    return [(seen.lowest, seen.lowest_since) for _, seen in told]


def test_a_nonce_is_the_lowest_since_the_one_before_it_landed():
    one, two = flight(1), flight(2)
    flights = lane(16, one, two)
    assert observed(flights, 1_000) == [(True, 0), (False, 0)]
    one.sightings[one.record.attempts[0].name] = Sighting("included")
    assert observed(flights, 2_000) == [(False, 2_000), (True, 2_000)]
    assert observed(flights, 9_000)[1] == (True, 2_000)


def test_nothing_is_the_lowest_above_a_number_of_nobody():
    flights = lane(16, flight(1), flight(2))
    assert [lowest for lowest, _ in observed(flights, 1_000, floor=0)] == [False, False]
    assert observed(flights, 5_000) == [(True, 5_000), (False, 5_000)]
    assert [lowest for lowest, _ in observed(flights, 6_000, floor=7)] == [True, False]


def test_a_chain_that_takes_one_at_a_time_gets_one_for_a_while():
    one = flight(1)
    flights = lane(16, one)
    flights.single = 1_000
    assert flights.room() == 0
    one.sightings[one.record.attempts[0].name] = Sighting("included")
    assert flights.room() == 1, "inclusion is enough"
    observed(flights, 1_000 + SINGLE_FOR_MS)
    assert flights.room() == 1
    observed(flights, 1_001 + SINGLE_FOR_MS)
    assert flights.room() == 16
