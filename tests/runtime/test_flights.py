"""The room of a lane's window: what takes a slot, and what gives it back."""

from __future__ import annotations

import pytest

from txmanager.core.chain import SendReply, Sighting, Verdict
from txmanager.core.decide import Policy
from txmanager.core.models import Attempt, Purpose, Record, new_intent
from txmanager.core.states import Status
from txmanager.runtime.flights import Flight, Flights


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
