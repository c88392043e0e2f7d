"""The order of a lane, as a table: how it stands, and what its sender does next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.core.test_decide import EVM, NEAR
from txmanager.core.chain import NonceView, Proof, SendReply, Sighting, Traits, Verdict
from txmanager.core.flights import Flight
from txmanager.core.keyless_plan import KeylessPlan
from txmanager.core.kills import Doom, KillCause
from txmanager.core.lane_plan import LanePlan
from txmanager.core.models import Attempt, Lane, LaneSpec, Purpose, Record, new_intent
from txmanager.core.signing_plan import SigningPlan
from txmanager.core.states import LaneState, Status
from txmanager.core.steps import Kill, Policy, Replace, Resign
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause
from txmanager.core.write_head import WriteHead

POLICY = Policy(window=4, include_within_ms=1_000, fill_after_ms=1_000, replace_after_ms=9_000)
NOW = 100_000
KILL = Kill(Doom(KillCause.CANCELLED, "cancelled"), "why")
RESIGN = Resign({}, False, "why")


def lane(state: LaneState = LaneState.ACTIVE, **more: Any) -> Lane:
    spec = LaneSpec("near:n:a:k", "p", keyless=more.pop("keyless", False))
    return Lane(spec, state, **{"cursor": 9, "baseline": 1, **more})


def attempt(nonce: int, purpose: Purpose = Purpose.FIRST, **more: Any) -> Attempt:
    return Attempt(nonce, f"hash{nonce}{purpose}", b"raw", purpose, NOW - 100, **more)


def flight(nonce: int, *others: Attempt, status: Status = Status.INFLIGHT, **more: Any) -> Flight:
    intent = new_intent(key=f"k{nonce}", pool="p", kind="near.transfer", payload={"n": str(nonce)})
    made = Record(intent, "near:n:a:k", "life", status, f"1-{nonce}", 0, 0, (attempt(nonce), *others))
    return Flight(made, **{"reply": SendReply(Verdict.ACCEPTED), **more})


def dead(nonce: int, **more: Any) -> Flight:
    proof = Proof("overtaken", {})
    return flight(nonce, **{"proofs": {attempt(nonce).name: proof}, **more})


def plan(*flights: Flight, traits: Traits = NEAR, stored: Lane | None = None) -> SigningPlan:
    made = SigningPlan(POLICY, traits, stored or lane())
    made.flights.replace_all(flights)
    return made


def unsent(made: LanePlan, *flights: Flight) -> LanePlan:
    made.sending([(f, f.record.attempts[0]) for f in flights], NOW)
    return made


def next_of(made: LanePlan, now: int = NOW, **more: bool) -> str:
    """The next action as text: its name and what it is about."""
    for action in made.turn(now, **more):
        about: Any = getattr(action, "flight", None) or getattr(action, "batch", None)
        if isinstance(about, Flight):
            return f"{type(action).__name__} {about.record.attempts[0].nonce}"
        if about:
            return f"{type(action).__name__} {sorted(a.nonce for _, a in about)}"
        for name in ("nonces", "room"):
            if hasattr(action, name):
                return f"{type(action).__name__} {getattr(action, name)}"
        return type(action).__name__
    return "nothing"


def refused(nonce: int, verdict: Verdict, **more: Any) -> Flight:
    return flight(nonce, reply=SendReply(verdict, "no"), **more)


def solo(of: Flight, *others: Flight) -> SigningPlan:
    made = plan(of, *others)
    made.solo = of
    return made


def with_gap(traits: Traits = EVM, state: LaneState = LaneState.ACTIVE) -> SigningPlan:
    made = plan(traits=traits, stored=lane(state, cursor=3, landed=0))
    made.see_chain(NonceView(1, 5), NOW - 2_000)
    return made


def short_of_funds(**evidence: str) -> SigningPlan:
    made = plan(stored=lane(LaneState.PAUSED, cause=PauseCause.FUNDS, evidence=evidence))
    made.ask_about_funds()
    return made


LOW, HIGH = flight(1), flight(2)
UNTAKEN = refused(1, Verdict.UNAVAILABLE)
DEAD = dead(1)

TABLE: dict[str, tuple[Callable[[], LanePlan], str]] = {
    "a free window takes what fits": (lambda: plan(flight(1)), "Take 3"),
    "a full window waits": (lambda: plan(*(flight(n) for n in range(4))), "nothing"),
    "what is included frees its slot": (
        lambda: plan(flight(1, sightings={attempt(1).name: Sighting("included")})),
        "Take 4",
    ),
    "before the first baseline nothing is taken": (lambda: plan(stored=lane(cursor=None)), "nothing"),
    "a draining lane takes what it has": (lambda: plan(stored=lane(LaneState.DRAINING)), "Take 4"),
    "a paused lane signs no first attempt": (lambda: plan(stored=lane(LaneState.PAUSED)), "nothing"),
    "a quarantined lane signs nothing": (lambda: plan(stored=lane(LaneState.QUARANTINED)), "nothing"),
    "what no node took goes out again before anything new": (lambda: unsent(plan(LOW, HIGH), LOW), "SendAgain [1]"),
    "bytes that are never acceptable stop nobody where gaps are harmless": (
        lambda: unsent(plan(f := refused(1, Verdict.PERMANENT)), f),
        "Take 3",
    ),
    "bytes that are never acceptable are sent again where gaps block": (
        lambda: unsent(plan(f := refused(1, Verdict.PERMANENT), traits=EVM), f),
        "SendAgain [1]",
    ),
    "bytes of a held intent are not sent again": (
        lambda: unsent(plan(f := flight(1, status=Status.HELD)), f),
        "Take 4",
    ),
    "bytes of an intent that ended are not sent again": (lambda: unsent(plan(), flight(1)), "Take 4"),
    "a dead intent stops new ones until it is decided": (lambda: plan(dead(1)), "nothing"),
    "a re-sign is carried out": (lambda: plan(dead(1, order=RESIGN)), "SignAlone 1"),
    "an earlier dead intent is signed again first": (lambda: plan(dead(1), dead(2, order=RESIGN)), "nothing"),
    "a held intent is signed again at an operator's word, whoever waits": (
        lambda: plan(dead(1), dead(2, order=RESIGN, status=Status.HELD)),
        "SignAlone 2",
    ),
    "a no-op waits for no re-sign": (lambda: plan(dead(1), flight(2, order=KILL)), "SignAlone 2"),
    "nothing new follows what went alone": (lambda: solo(flight(1)), "nothing"),
    "no order of another follows what went alone": (lambda: solo(flight(1), dead(2, order=RESIGN)), "nothing"),
    "the no-op that kills what went alone follows it": (lambda: solo(flight(1, order=KILL)), "SignAlone 1"),
    "a refusal ends the waiting for what went alone": (lambda: solo(refused(1, Verdict.EXPIRED)), "Take 3"),
    "no answer does not end it": (lambda: solo(refused(1, Verdict.UNAVAILABLE)), "nothing"),
    "inclusion ends it": (lambda: solo(flight(1, sightings={attempt(1).name: Sighting("included")})), "Take 4"),
    "a better price goes before what is unsent": (
        lambda: unsent(plan(LOW, flight(2, order=Replace(attempt(2), "why")), traits=EVM), LOW),
        "Outbid 2",
    ),
    "of several the lowest nonce is outbid": (
        lambda: plan(flight(2, order=KILL), flight(1, order=KILL), traits=EVM),
        "Outbid 1",
    ),
    "a gap is filled before anything else": (with_gap, "FillGaps [1, 2]"),
    "a gap is harmless where gaps are": (lambda: with_gap(NEAR), "Take 4"),
    "a lane that signs nothing fills no gap": (lambda: with_gap(state=LaneState.QUARANTINED), "nothing"),
    "funds are asked for when an intent waits for them": (lambda: short_of_funds(intent="k"), "AskFunds"),
    "what is in flight and lacks funds is the tracker's matter": (short_of_funds, "nothing"),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_a_lane_does_next(case: str) -> None:
    make, expected = TABLE[case]
    assert next_of(make()) == expected


def test_everything_open_goes_out_again_once() -> None:
    made = plan(flight(1), flight(2), flight(3, status=Status.HELD))
    made.send_all_again()
    assert next_of(made) == "SendAgain [1, 2]"
    made.unsent.clear()
    assert next_of(made) == "Take 2"


def test_a_take_is_repeated_only_when_there_may_be_more() -> None:
    made = plan()
    made.take_begins()
    made.took(["1-1"], 4)
    assert next_of(made) == "nothing"
    made.take_again()
    assert next_of(made) == "Take 4"
    made.take_begins()
    made.took(["1-2", "1-3"], 2)
    assert next_of(made) == "Take 4"
    made.stop_taking()
    assert next_of(made) == "nothing"


def test_what_happens_during_an_action_counts_for_the_next() -> None:
    """Filling gaps takes a while: an order that came meanwhile is carried out in the same turn."""
    made = with_gap()
    actions = made.turn(NOW)
    assert type(next(actions)).__name__ == "FillGaps"
    made.flights.add(flight(2, order=KILL))
    assert type(next(actions)).__name__ == "Outbid"


def test_a_send_that_is_taken_is_not_sent_again_and_a_gap_sends_all() -> None:
    low, high = flight(1), flight(2)
    made = plan(low, high, traits=EVM)
    made.sending([(low, low.record.attempts[0]), (high, high.record.attempts[0])], NOW)
    made.answered(low, low.record.attempts[0], SendReply(Verdict.ACCEPTED))
    assert next_of(made) == "SendAgain [2]"
    made.answered(high, high.record.attempts[0], SendReply(Verdict.NONCE_GAP, "a lower one is missing"))
    assert next_of(made) == "SendAgain [1, 2]"


def test_what_was_signed_is_not_written_ahead_once_the_lane_stopped_or_a_dead_intent_waits() -> None:
    made = plan(flight(1))
    made.take_begins()
    assert made.may_take()
    made.flights.add(dead(2))
    assert not made.may_take()
    made.flights.replace_all([])
    made.state = LaneState.PAUSED
    assert not made.may_take()


@pytest.mark.parametrize(
    ("state", "cause", "resign", "kill"),
    [
        (LaneState.ACTIVE, None, True, True),
        (LaneState.DRAINING, None, True, True),
        (LaneState.PAUSED, PauseCause.OPERATOR, True, True),
        (LaneState.PAUSED, PauseCause.FUNDS, False, True),
        (LaneState.QUARANTINED, QuarantineCause.ROLLED_BACK, False, False),
    ],
)
def test_what_a_stopped_lane_still_signs(state: LaneState, cause: Any, resign: bool, kill: bool) -> None:
    made = plan(stored=lane(state, cause=cause))
    assert (made.may_sign(RESIGN), made.may_sign(KILL)) == (resign, kill)


def test_an_order_is_carried_out_once_and_only_as_it_was_decided() -> None:
    one = flight(1)
    made = plan(one, traits=EVM)
    order = Replace(one.record.attempts[0], "why")
    assert made.bid(one, order) is not None
    one.record = replace(one.record, attempts=(*one.record.attempts, attempt(1, Purpose.NOOP, base_height=1)))
    one.record.attempts[1].signed_at += 50  # type: ignore[misc]
    assert made.bid(one, order) is None, "there is a newer attempt at the nonce"
    assert made.bid(one, KILL) is None, "there is a no-op already"
    assert not made.may_sign_alone(dead(3, order=RESIGN), RESIGN), "it would overtake an open one"


def test_a_nonce_that_nothing_of_ours_explains_is_found_at_a_take_over() -> None:
    made = plan(flight(5), stored=lane(cursor=9, landed=3))
    views = {n: (made.foreign(view), made.unexplained(view)) for n in (4, 6, 7, 10) for view in [NonceView(n, 1)]}
    assert views == {4: (False, False), 6: (False, False), 7: (False, True), 10: (True, True)}
    assert not plan(traits=EVM).unexplained(NonceView(7, 1)), "overtaking is harmless there"


def test_an_operators_command_counts_on_a_paused_lane_only() -> None:
    asked = lane(LaneState.PAUSED, command=LaneCommand.REBASELINE)
    assert plan(stored=asked).command is asked
    assert plan(stored=lane(command=LaneCommand.REBASELINE)).command is None


# -- keyless


def keyless(*flights: Flight) -> KeylessPlan:
    made = KeylessPlan(POLICY, EVM, lane(keyless=True, cursor=None))
    made.flights.replace_all(flights)
    return made


def test_a_keyless_lane_waits_for_no_number_and_no_pause_of_another() -> None:
    low, high = refused(1, Verdict.NONCE_GAP), flight(2)
    made = unsent(keyless(low, high), low)
    assert next_of(made) == "SendAgain [1]"
    assert next_of(made, pausing=True) == "Take 2"
    made.send_all_again()
    assert next_of(made, pausing=True) == "SendAgain [1, 2]"


@pytest.mark.parametrize(
    ("verdict", "others", "again"),
    [
        (Verdict.UNDERPRICED, [2, 3], False),
        (Verdict.BUSY, [2, 3], True),
        (Verdict.UNAVAILABLE, [], True),
    ],
)
def test_a_refusal_stops_nobody_else_unless_the_node_is_away(verdict: Verdict, others: list[int], again: bool) -> None:
    low, *rest = [refused(1, verdict), flight(2), flight(3)]
    made = keyless(low, *rest)
    batch = [(f, f.record.attempts[0]) for f in (low, *rest)]
    made.sending(batch, NOW)
    assert [a.nonce for _, a in made.go_on(batch, 0)] == others
    assert (low.record.attempts[0].name in made.unsent) is again


def test_a_signing_lane_sends_nothing_after_a_refusal() -> None:
    low, high = refused(1, Verdict.BUSY), flight(2)
    assert not plan(low, high).go_on([(low, low.record.attempts[0]), (high, high.record.attempts[0])], 0)


# -- where it writes


def test_a_late_copy_of_a_request_that_was_given_up_is_taken_over() -> None:
    head = WriteHead(5, "1-4", "1-9")
    one = flight(5).record
    head.gave_up({one.attempts[0].name: one.position})
    head.own([one])
    assert (head.cursor, head.signed_upto, head.given_up) == (6, "1-5", {})


def test_a_cursor_that_nobody_of_ours_moved_is_not_followed() -> None:
    head = WriteHead(5, "1-4", "1-9")
    assert not head.follow(lane(cursor=7))
    head.gave_up({"6:hash": "1-10"})
    assert head.follow(lane(cursor=7, signed_upto="1-10"))
    assert (head.cursor, head.signed_upto) == (7, "1-10")


@pytest.mark.parametrize(
    ("found", "stands"),
    [
        ({"cursor": 5, "signed_upto": "1-4", "last_id": "1-9"}, True),
        ({"cursor": 5, "signed_upto": "1-4", "last_id": "1-10"}, True),
        ({"cursor": 5, "signed_upto": "1-4", "last_id": "1-8"}, False),
        ({"cursor": 4, "signed_upto": "1-4", "last_id": "1-9"}, False),
        ({"cursor": 5, "signed_upto": "1-3", "last_id": "1-9"}, False),
    ],
)
def test_a_ledger_that_lost_what_was_written_or_read_does_not_stand(found: dict[str, Any], stands: bool) -> None:
    assert WriteHead(5, "1-4", "1-9").stands_in(lane(**found)) is stands
