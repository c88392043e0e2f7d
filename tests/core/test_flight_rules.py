"""What a lane remembers of its attempts: what is open, what is sent again, what must wait for what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from txmanager.core.chain import Proof, SendReply, Sighting, Verdict
from txmanager.core.decide import Kill, Observation, Policy, Resign
from txmanager.core.flights import SINGLE_FOR_MS, Flight, Flights
from txmanager.core.funds import Finding, Purse, Word
from txmanager.core.kills import Doom, KillCause
from txmanager.core.ledger import Landed
from txmanager.core.models import Attempt, Purpose, Record, new_intent
from txmanager.core.states import Status
from txmanager.core.window import GROW_AGAIN_MS

KILL = Kill(Doom(KillCause.CANCELLED, "cancelled"), "why")
Where = Literal["pending", "included", "final"]


def attempt(nonce: int, purpose: Purpose = Purpose.FIRST, *, dead: bool = False, at: int = 0) -> Attempt:
    made = Attempt(nonce, f"{purpose}{nonce}.{at}", b"", purpose, at)
    return made.with_proof({"cause": "overtaken"}) if dead else made


def flight(*attempts: Attempt, held: bool = False, key: str = "") -> Flight:
    intent = new_intent(key=key or f"k{attempts[0].nonce}", pool="p", kind="near.transfer", payload={})
    status = Status.HELD if held else Status.INFLIGHT
    return Flight(Record(intent, "near:x:y:z", "life", status, f"1-{attempts[0].nonce}", 0, 0, attempts))


def see(one: Flight, attempt: Attempt, where: Where = "included") -> None:
    one.sightings[attempt.name] = Sighting(where)


def prove(one: Flight, attempt: Attempt) -> None:
    one.proofs[attempt.name] = Proof("overtaken", {})


def lane(*flights: Flight, window: int = 4, gaps_block: bool = False, max_inflight: int = 100) -> Flights:
    found = Flights(Policy(window=window, max_inflight=max_inflight), gaps_block=gaps_block)
    for one in flights:
        found.add(one)
    return found


# -- one flight


def test_where_an_attempt_is():
    first, second = attempt(1), attempt(2)
    one = flight(first, second)
    assert one.where(first) == "unknown"
    assert not one.on_chain(first)
    see(one, first, "pending")
    assert one.where(first) == "pending"
    assert not one.on_chain(first)
    for where in ("included", "final"):
        see(one, first, where)
        assert one.on_chain(first)
    assert not one.on_chain(second)


def test_one_attempt_is_open_until_it_is_dead_proven_or_on_chain():
    alive = attempt(1)
    assert flight(alive).open == [alive]
    assert flight(attempt(1, dead=True)).open == []
    proven, seen, pending = flight(alive), flight(alive), flight(alive)
    prove(proven, alive)
    see(seen, alive)
    see(pending, alive, "pending")
    assert (proven.open, seen.open, pending.open) == ([], [], [alive])


def test_of_several_attempts_those_are_open_whose_nonce_is_not_used():
    old, new, above = attempt(1), attempt(1, Purpose.REPLACE, at=1), attempt(2, Purpose.NOOP)
    one = flight(old, new, above, attempt(3, dead=True))
    assert one.open == [old, new, above]
    see(one, new)
    assert one.open == [above]
    prove(one, above)
    assert one.open == []


def test_rivals_of_one_on_chain_are_undecided_since_a_block_can_be_undone():
    old, new, dead = attempt(1), attempt(1, Purpose.REPLACE, at=1), attempt(2, dead=True)
    one = flight(old, new, dead)
    see(one, new)
    assert one.undecided == [old]
    prove(one, old)
    assert one.undecided == []


def test_only_an_effect_lands_an_intent():
    first, noop = attempt(1), attempt(2, Purpose.NOOP)
    one = flight(first, noop)
    assert not one.landed
    see(one, noop)
    assert not one.landed
    see(one, first)
    assert one.landed
    replaced = flight(first, attempt(1, Purpose.REPLACE, at=1))
    see(replaced, first)
    assert replaced.landed, "any of them will do"


def test_what_is_final_is_told_with_its_bytes_no_ops_included():
    first, noop, above = attempt(1), attempt(2, Purpose.NOOP), attempt(3, Purpose.NOOP)
    one = flight(first, noop, above)
    see(one, noop, "final")
    see(one, above, "included")
    assert one.final == [Landed(2, noop.hash, noop.raw, one.record.id.text)]


def test_what_is_sent_again_is_the_newest_of_a_nonce_and_a_no_op_alone():
    old, new, other = attempt(1, at=5), attempt(1, Purpose.REPLACE, at=9), attempt(2, Purpose.RESIGN, at=1)
    assert flight(new, old, other).sendable == [other, new]
    noop = attempt(3, Purpose.NOOP, at=7)
    assert flight(old, noop).sendable == [noop]
    one = flight(old, noop)
    prove(one, noop)
    assert one.sendable == [old]


def test_a_flight_is_dead_when_each_effect_is_and_whatever_its_no_op_is():
    first, noop = attempt(1), attempt(2, Purpose.NOOP)
    one = flight(first, noop)
    assert one.dead is False
    prove(one, first)
    assert one.dead
    assert flight(attempt(1, dead=True), noop).dead
    assert not flight(attempt(1, dead=True), attempt(2, Purpose.RESIGN)).dead


@pytest.mark.parametrize(
    ("reply", "unproven", "expected"),
    [
        (None, False, False),
        (None, True, True),
        (SendReply(Verdict.ACCEPTED), False, True),
        (SendReply(Verdict.PERMANENT), False, True),
        (SendReply(Verdict.UNAVAILABLE), False, False),
        (SendReply(Verdict.UNAVAILABLE), True, True),
    ],
)
def test_what_a_node_took_or_never_takes_is_out_of_the_way(reply: SendReply | None, unproven: bool, expected: bool):
    one = flight(attempt(1))
    one.reply, one.unproven = reply, unproven
    assert one.out_of_the_way is expected


def test_a_resign_still_fits_while_all_it_replaces_is_dead():
    first = attempt(1)
    order = Resign({first.name: {"cause": "overtaken"}}, False, "why")
    assert flight(first).still(order) is True
    assert flight(attempt(1, dead=True)).still(Resign({}, False, "why")) is True
    assert flight(first).still(Resign({}, False, "why")) is False
    assert flight(first, attempt(2, Purpose.RESIGN)).still(order) is False, "signed again since it was decided"
    cancelled = flight(first)
    cancelled.record = replace(cancelled.record, cancel_requested=True)
    assert cancelled.still(order) is False, "it ends as it is"


def test_a_kill_still_fits_until_a_no_op_is_out():
    first, noop = attempt(1), attempt(2, Purpose.NOOP)
    assert flight(first).still(KILL) is True
    assert flight(first).still(None) is False
    assert flight(first, noop).still(KILL) is False
    one = flight(first, noop)
    prove(one, noop)
    assert one.still(KILL) is True


# -- all of a lane


def test_flights_are_kept_by_intent_in_stream_order():
    one, two = flight(attempt(1)), flight(attempt(2))
    flights = lane(one, two)
    assert list(flights) == [one, two]
    assert len(flights) == 2
    assert flights.get(one.record.id) is one
    flights.remove(one.record.id)
    flights.remove(one.record.id)
    assert flights.get(one.record.id) is None
    assert list(flights) == [two]


def test_room_is_what_the_window_and_the_unsettled_leave():
    assert lane().room() == 4
    assert lane(flight(attempt(1))).room() == 3
    assert lane(flight(attempt(1)), flight(attempt(2)), max_inflight=3).room() == 1
    assert lane(*(flight(attempt(n)) for n in range(9))).room() == 0


def replied(nonce: int, verdict: Verdict | None = Verdict.ACCEPTED) -> Flight:
    one = flight(attempt(nonce))
    one.reply = None if verdict is None else SendReply(verdict)
    return one


def test_a_window_grows_when_nodes_took_all_of_it_if_it_is_wider_than_one():
    def room(window: int, *flights: Flight) -> int:
        found = Flights(Policy(window=window, max_window=8))
        for one in flights:
            found.add(one)
        return found.room()

    assert room(2, replied(1), replied(2)) == 2
    for verdict in (Verdict.UNAVAILABLE, None):
        assert room(2, replied(1), replied(2, verdict)) == 0
    assert room(1, replied(1)) == 0, "it keeps the order of execution"
    strict = Flights(Policy(window=1, max_window=8)).window
    strict.holds(8)
    assert strict.size == 1


def test_no_room_counts_what_nodes_took_and_nobody_has_seen_on_chain():
    landed = replied(90)
    see(landed, landed.record.attempts[0])
    flights = Flights(Policy(window=2, max_window=64))
    for one in (*(replied(n) for n in range(15)), landed, replied(91, None), replied(92, Verdict.UNAVAILABLE)):
        flights.add(one)
    flights.room()
    assert flights.window.size == 30
    flights.no_room(5)
    assert flights.window.size == 7
    flights.room()
    assert flights.window.size == 7
    told(flights, now=5 + GROW_AGAIN_MS + 1)
    flights.room()
    assert flights.window.size == 30


def test_a_held_intent_takes_no_slot_of_a_wider_window_and_stops_where_others_wait_for_it():
    held = flight(attempt(5), held=True)
    assert lane(held).room() == 4
    assert lane(held, max_inflight=1).room() == 0, "it is unsettled"
    assert lane(held, window=1).room() == 0
    assert lane(held, gaps_block=True).room() == 0


def test_a_held_intent_whose_number_is_used_keeps_nobody_waiting():
    for window, gaps_block in ((1, False), (4, True)):
        held = flight(attempt(5), held=True)
        flights = lane(held, window=window, gaps_block=gaps_block)
        flights.saw_used(4)
        assert flights.blocks(held)
        assert flights.room() == 0
        flights.saw_used(5)
        assert not flights.blocks(held)
        assert flights.room() == window
    flights = lane(flight(attempt(5), held=True), max_inflight=1)
    flights.used = 5
    assert flights.room() == 1, "and it no longer counts as unsettled"


def test_a_held_intent_blocks_while_any_of_its_numbers_is_open_above_what_is_used():
    held = flight(attempt(5), attempt(8, Purpose.NOOP), held=True)
    flights = lane(held)
    flights.used = 5
    assert flights.blocks(held)
    landed = attempt(9)
    other = flight(landed)
    see(other, landed)
    flights.add(other)
    assert flights.highest_on_chain() == 9
    assert not flights.blocks(held), "the highest that was seen tells as well"


def test_the_highest_on_chain_is_remembered_when_its_flight_has_ended():
    low, high = flight(attempt(3)), flight(attempt(7))
    flights = lane(low, high)
    assert flights.highest_on_chain() == -1
    several = flight(attempt(1), attempt(9, Purpose.NOOP), key="several")
    see(several, several.record.attempts[0])
    assert lane(several).highest_on_chain() == 1, "not the no-op that nobody has seen"
    see(high, high.record.attempts[0])
    see(low, low.record.attempts[0])
    assert flights.highest_on_chain() == 7
    flights.remove(high.record.id)
    assert flights.highest_on_chain() == 7


def test_a_lower_nonce_that_no_node_has_is_not_overtaken():
    low = flight(attempt(3))
    flights = lane(low, flight(attempt(7)))
    assert flights.unsent_below(7) is True
    assert flights.unsent_below(3) is False
    low.reply = SendReply(Verdict.ACCEPTED)
    assert flights.unsent_below(7) is False
    assert lane(flight(attempt(3), held=True)).unsent_below(7) is False


def test_the_first_dead_one_that_is_not_held_waits_to_be_signed_again():
    held, alive, dead = flight(attempt(1, dead=True), held=True), flight(attempt(2)), flight(attempt(3, dead=True))
    assert lane(held, alive).first_waiting is None
    assert lane(held, alive).waiting is False
    flights = lane(held, alive, dead, flight(attempt(4, dead=True)))
    assert flights.first_waiting is dead
    assert flights.waiting is True
    assert lane(flight(attempt(1, dead=True), attempt(2, Purpose.RESIGN))).first_waiting is None, "it was signed again"
    found = flight(attempt(5))
    assert lane(found).first_waiting is None
    prove(found, found.record.attempts[0])
    assert lane(found).first_waiting is found, "the proof need not be stored yet"


def test_a_new_nonce_is_clear_when_all_others_are_held_or_not_open():
    mine, held, dead, other = (
        flight(attempt(1)),
        flight(attempt(2), held=True),
        flight(attempt(3, dead=True)),
        flight(attempt(4)),
    )
    assert lane(mine, held, dead).clear_for(mine) is True
    assert lane(mine, held, dead, other).clear_for(mine) is False
    see(other, other.record.attempts[0])
    assert lane(mine, held, dead, other).clear_for(mine) is True


# -- what decide is told


def told(flights: Flights, *, queue_empty: bool = True, now: int = 50, floor: int | None = None) -> list[Observation]:
    return [seen for _, seen in flights.observe_all(queue_empty=queue_empty, now=now, floor=floor)]


def test_what_was_seen_of_a_flight_is_passed_on():
    one = flight(attempt(1))
    one.reply, one.sent_at, one.unproven, one.killable = SendReply(Verdict.ACCEPTED), 7, True, False
    [seen] = told(lane(one))
    assert (seen.reply, seen.sent_at, seen.unproven, seen.killable) == (one.reply, 7, True, False)
    assert (seen.sightings, seen.proofs) == (one.sightings, one.proofs)


def test_priced_out_lasts_until_its_time():
    one = flight(attempt(1))
    one.priced_out_until = 50
    assert [seen.priced_out for now in (49, 50) for seen in told(lane(one), now=now)] == [True, False]


def test_a_finding_counts_for_the_answer_it_was_made_for():
    one = flight(attempt(1))
    finding = Finding(Word.FAIL, 1, Purse("", 0))
    one.reply = SendReply(Verdict.INSUFFICIENT_FUNDS)
    assert told(lane(one))[0].means is None
    one.doubt = (one.reply, finding)
    assert told(lane(one))[0].means is finding
    one.reply = SendReply(Verdict.INSUFFICIENT_FUNDS)
    assert told(lane(one))[0].means is None


def test_a_flight_is_overtaken_when_a_higher_nonce_is_on_chain():
    low, same, none = flight(attempt(3)), flight(attempt(7)), flight(attempt(2, dead=True))
    landed = flight(attempt(6), attempt(7, Purpose.NOOP), key="landed")
    see(landed, landed.record.attempts[1])
    both = flight(attempt(4), attempt(9, Purpose.NOOP), key="both")
    overtaken = [seen.overtaken for seen in told(lane(low, same, none, landed, both))]
    assert overtaken == [True, False, False, True, True], "the lowest of several counts"


def test_clear_and_idle_say_who_could_be_overtaken():
    mine, held, other = flight(attempt(1)), flight(attempt(2), held=True), flight(attempt(3))

    def flags(*flights: Flight, **more: Any) -> list[tuple[bool, bool]]:
        return [(seen.clear, seen.idle) for seen in told(lane(*flights), **more)]

    assert flags(mine) == [(True, True)]
    assert flags(mine, queue_empty=False) == [(True, False)]
    assert flags(mine, other) == [(False, False), (False, False)]
    assert flags(mine, held) == [(True, False), (False, False)], "held ones are no obstacle to a re-sign"
    dead = flight(attempt(4, dead=True))
    assert flags(mine, dead, queue_empty=False) == [(True, True), (False, False)], "one waits: nothing new goes out"
    assert flags(dead) == [(True, True)]


def test_nothing_new_goes_out_of_a_full_window():
    [seen] = told(lane(flight(attempt(1)), window=1), queue_empty=False)
    assert seen.idle


def test_the_lowest_is_so_since_it_became_so():
    one, two = flight(attempt(1)), flight(attempt(2))
    flights = lane(one, two)
    assert [(seen.lowest, seen.lowest_since) for seen in told(flights, now=10)] == [(True, 0), (False, 0)]
    see(one, one.record.attempts[0])
    assert [(seen.lowest, seen.lowest_since) for seen in told(flights, now=20)] == [(False, 20), (True, 20)]
    assert told(flights, now=30, floor=2)[1].lowest_since == 20, "a floor that is not below changes nothing"
    assert [seen.lowest for seen in told(flights, now=30, floor=1)] == [False, False]
    two_nonces = flight(attempt(1), attempt(5, Purpose.NOOP), key="two")
    assert [seen.lowest for seen in told(lane(two_nonces, flight(attempt(2))))] == [True, False]
    [nothing_open] = told(lane(flight(attempt(1, dead=True))))
    assert (nothing_open.lowest, nothing_open.lowest_since) == (False, 0)


def test_one_at_a_time_ends_after_a_while():
    flights = lane(flight(attempt(1)))
    flights.single = 1
    told(flights, now=1 + SINGLE_FOR_MS)
    assert flights.single == 1
    told(flights, now=2 + SINGLE_FOR_MS)
    assert flights.single == 0
