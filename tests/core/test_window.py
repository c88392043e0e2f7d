"""A window that grows while nodes take more, and shrinks when one says that there is no room."""

from __future__ import annotations

import pytest

from tests.core.test_flights import flight
from txmanager.core.chain import SendReply, Sighting, Verdict
from txmanager.core.decide import Policy
from txmanager.core.flights import Flights
from txmanager.core.window import GROW_AGAIN_MS, Window


def test_a_window_doubles_when_nodes_hold_a_whole_one_and_stops_at_its_top():
    window, sizes = Window(16, 100), []
    for _ in range(4):
        window.holds(window.size)
        sizes.append(window.size)
    assert sizes == [32, 64, 100, 100]


@pytest.mark.parametrize("held", [0, 1, 15])
def test_a_window_that_is_not_full_tells_nothing(held):
    window = Window(16, 1024)
    window.holds(held)
    assert window.size == 16


def test_the_first_refusal_for_want_of_room_halves_what_nodes_hold_and_others_of_it_do_not_count():
    window = Window(16, 1024)
    window.size = 512
    window.no_room(200, 1_000)
    assert window.size == 100
    window.no_room(100, 1_001)
    assert window.size == 100


def test_a_window_never_shrinks_below_its_start():
    window = Window(16, 1024)
    window.no_room(3, 1_000)
    assert window.size == 16


def test_a_window_grows_again_after_a_while_also_when_the_clock_was_set_back():
    for later in (1_000 + GROW_AGAIN_MS + 1, 500):
        window = Window(16, 1024)
        window.size = 64
        window.no_room(64, 1_000)
        window.later(1_000)
        window.later(1_000 + GROW_AGAIN_MS)
        window.holds(64)
        assert window.size == 32
        window.later(later)
        window.holds(64)
        assert window.size == 128


@pytest.mark.parametrize(("start", "most"), [(4, 4), (4, 0), (1, 1)])
def test_a_fixed_window_stays_as_it_is(start, most):
    window = Window(start, most)
    window.holds(1_000)
    window.no_room(1_000, 1)
    assert window.size == start


def grown(count: int, policy: Policy, verdict: Verdict = Verdict.ACCEPTED) -> Flights:
    flights = Flights(policy)
    for n in range(count):
        one = flight(n)
        one.reply = SendReply(verdict)
        flights.add(one)
    return flights


def test_room_grows_with_what_nodes_took_and_not_with_what_they_refused():
    policy = Policy(window=16, max_window=64, max_inflight=1_000)
    assert grown(16, policy).room() == 16
    assert grown(16, policy, Verdict.BUSY).room() == 0
    assert grown(64, policy).room() == 0


def test_what_is_on_chain_is_not_held_by_a_pool():
    flights = grown(16, Policy(window=16, max_window=64, max_inflight=1_000))
    for one in list(flights)[:8]:
        one.sightings[one.record.attempts[0].name] = Sighting("included")
    assert flights.room() == 8


def test_a_window_of_one_is_strict_and_never_grows():
    assert grown(1, Policy(window=1, max_window=64)).room() == 0


def test_an_account_that_may_have_one_at_a_time_has_one_whatever_the_window_grew_to():
    flights = grown(16, Policy(window=16, max_window=64))
    assert flights.room() == 16
    flights.single = 1
    assert flights.room() == 0
