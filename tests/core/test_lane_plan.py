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
from txmanager.core.ledger import Taken
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
            return f"{type(action).__name__} {[a.nonce for _, a in about]}"
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
    "a lane that signs nothing outbids nothing, and keeps the order": (
        lambda: plan(
            flight(1, order=Replace(attempt(1), "why")), traits=EVM, stored=lane(LaneState.QUARANTINED, cursor=None)
        ),
        "nothing",
    ),
    "a signer that refused is asked again": (
        lambda: plan(dead(1, order=RESIGN), stored=lane(LaneState.PAUSED, cause=PauseCause.SIGNER_REFUSED)),
        "TrySigner",
    ),
    "after a wrong signature a trial comes before anything that is signed": (
        lambda: plan(dead(1, order=RESIGN), stored=lane(LaneState.PAUSED, command=LaneCommand.TRIAL)),
        "TrySigner",
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


def test_a_better_price_that_waits_for_its_signature_does_not_end_the_turn() -> None:
    low, high, later = flight(1), flight(2, order=Replace(attempt(2), "why")), flight(3)
    made = unsent(plan(low, high, later, traits=EVM), low)
    assert [type(action).__name__ for action in made.turn(NOW)] == ["Outbid", "SendAgain"]
    made.unsent.clear()
    assert [type(action).__name__ for action in made.turn(NOW)] == ["Outbid", "Take"], "and is not signed alone"


def test_a_signer_that_signs_again_goes_on_in_the_same_turn() -> None:
    made = plan(stored=lane(LaneState.PAUSED, cause=PauseCause.SIGNER_REFUSED))
    actions = made.turn(NOW)
    assert type(next(actions)).__name__ == "TrySigner"
    made.state = LaneState.ACTIVE
    assert type(next(actions)).__name__ == "Take"


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
        (LaneState.PAUSED, PauseCause.SIGNER_REFUSED, False, False),
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


def test_what_ended_or_was_cancelled_while_it_was_signed_is_not_signed_again() -> None:
    one = dead(1)
    made, deaths = plan(one), {attempt(1).name: {"cause": "overtaken"}}
    resign = Resign(deaths, False, "why")
    assert made.may_sign_alone(one, resign)
    one.record = replace(one.record, cancel_requested=True)
    assert not made.may_sign_alone(one, resign)
    assert made.may_sign_alone(flight(1), KILL) is False, "not this lane's any more"
    other = flight(2)
    assert plan(traits=EVM).bid(other, Replace(attempt(2), "why")) is None


def test_a_nonce_that_nothing_of_ours_explains_is_found_at_a_take_over() -> None:
    made = plan(flight(5), stored=lane(cursor=9, landed=3))
    views = {n: (made.foreign(view), made.unexplained(view)) for n in (4, 6, 7, 10) for view in [NonceView(n, 1)]}
    assert views == {4: (False, False), 6: (False, False), 7: (False, True), 10: (True, True)}
    assert not plan(traits=EVM).unexplained(NonceView(7, 1)), "overtaking is harmless there"


def test_an_operators_command_counts_on_a_paused_lane_only() -> None:
    asked = lane(LaneState.PAUSED, command=LaneCommand.REBASELINE)
    assert plan(stored=asked).command is asked
    assert plan(stored=lane(command=LaneCommand.REBASELINE)).command is None


def test_what_is_said_of_the_lane_while_its_first_nonce_is_read_counts() -> None:
    made = plan(stored=lane(cursor=None, baseline=None))
    made.is_in(LaneState.PAUSED)
    made.based_on(7, replace(made.stored, baseline=7))
    assert (made.state, made.stored.baseline, made.head.cursor) == (LaneState.PAUSED, 7, 7)
    made.is_in(LaneState.ACTIVE)
    assert next_of(made) == "Take 4"


@pytest.mark.parametrize(("command", "signs"), [(LaneCommand.TRIAL, False), (LaneCommand.REBASELINE, True)])
def test_nothing_is_signed_while_a_signer_is_on_trial(command: LaneCommand, signs: bool) -> None:
    made = plan(stored=lane(LaneState.PAUSED, cause=PauseCause.OPERATOR, command=command))
    assert (made.signs_again, made.tries_signer) == (signs, not signs)


@pytest.mark.parametrize("cause", [PauseCause.FUNDS, PauseCause.SIGNER_REFUSED])
def test_a_cause_from_before_counts_no_more_once_the_lane_works(cause: PauseCause) -> None:
    made = plan(stored=lane(LaneState.PAUSED, cause=cause))
    assert made.lacks_funds is (cause is PauseCause.FUNDS)
    assert made.tries_signer is (cause is PauseCause.SIGNER_REFUSED)
    made.is_in(LaneState.ACTIVE)
    assert (made.lacks_funds, made.tries_signer) == (False, False)


def test_a_ledger_that_lost_writes_is_known_by_its_cause() -> None:
    made = plan()
    assert (made.quarantined, made.forgets) == (False, False)
    made.quarantine(QuarantineCause.FOREIGN_NONCE_USE)
    assert (made.quarantined, made.forgets) == (True, False)
    made.read(lane())
    made.quarantine(QuarantineCause.ROLLED_BACK)
    assert (made.quarantined, made.forgets, made.stored.reason) == (True, True, "ledger_rolled_back")
    made.is_in(LaneState.PAUSED)
    assert (made.quarantined, made.forgets) == (False, False)


def test_a_pause_without_a_command_asks_for_nothing() -> None:
    assert plan(stored=lane(LaneState.PAUSED)).command is None


def test_a_lane_starts_by_taking_and_not_by_asking_for_funds() -> None:
    made = plan(stored=lane(LaneState.PAUSED, cause=PauseCause.FUNDS, evidence={"intent": "k"}))
    assert next_of(made) == "nothing"
    made.ask_about_funds()
    assert next_of(made) == "AskFunds"
    assert next_of(made) == "nothing", "asked once"
    made.ask_about_funds()
    made.is_in(LaneState.ACTIVE)
    assert next_of(made) == "Take 4"


def test_only_a_nonce_above_the_cursor_of_a_lane_that_signs_is_foreign() -> None:
    assert not plan().foreign(NonceView(9, 1))
    assert plan().foreign(NonceView(10, 1))
    assert not plan(stored=lane(cursor=None)).foreign(NonceView(10, 1))
    assert not keyless().foreign(NonceView(10, 1))
    assert not KeylessPlan(POLICY, EVM, lane(keyless=True)).foreign(NonceView(10, 1))
    assert plan(traits=EVM).unexplained(NonceView(10, 1))


@pytest.mark.parametrize(
    ("baseline", "landed", "used", "stranger"),
    [
        (5, None, 4, False),  # below the baseline: vouched for
        (5, None, 5, True),
        (None, None, 0, True),
        (None, 3, 3, False),
        (None, 3, 4, True),
        (5, 3, 6, False),  # ours
        (5, 3, 7, True),
    ],
)
def test_whose_the_last_used_nonce_is(baseline: int | None, landed: int | None, used: int, stranger: bool) -> None:
    made = plan(flight(6), flight(8), stored=lane(cursor=20, baseline=baseline, landed=landed))
    assert made.unexplained(NonceView(used + 1, 1)) is stranger


def test_a_new_lane_explains_a_key_that_was_never_used() -> None:
    assert not plan(stored=lane(cursor=1, baseline=None, landed=None)).unexplained(NonceView(0, 1))


def test_what_is_appended_during_a_take_asks_for_another() -> None:
    made = plan()
    made.take_begins()
    made.take_again()
    made.took([], 4)
    assert next_of(made) == "Take 4"
    made.take_begins()
    made.took(["1-8"], 4)
    assert made.head.last_id == "1-8"


def entry(position: str) -> Taken:
    return Taken(new_intent(key=position, pool="p", kind="near.transfer", payload={}), "life", position, NOW)


def quiet(last_id: str = "1-5", stored: Lane | None = None) -> LanePlan:
    """All that it knows of is taken."""
    make = KeylessPlan if stored is not None and stored.keyless else SigningPlan
    made = make(POLICY, NEAR, stored or lane())
    made.take_begins()
    made.took([last_id], 4)
    assert next_of(made) == "nothing"
    return made


def test_the_only_news_is_signed_as_it_came_and_once() -> None:
    made = quiet()
    made.offer(entry("1-6"))
    assert next_of(made) == "Take 4"
    assert made.accept_offer() == entry("1-6")
    assert made.accept_offer() is None
    assert next_of(made) == "nothing"


@pytest.mark.parametrize(
    "make",
    [
        lambda: quiet("1-6"),
        lambda: quiet("1-7"),
        plan,
        lambda: quiet(stored=lane(keyless=True)),
    ],
    ids=["it was taken", "later ones were taken", "something else may be queued", "its caller chose the number"],
)
def test_what_a_wake_up_brings_is_taken_unless_it_is_the_only_news(make: Callable[[], LanePlan]) -> None:
    made = make()
    made.offer(entry("1-6"))
    assert made.accept_offer() is None
    assert next_of(made) == "Take 4"


def test_two_that_wake_ups_brought_are_taken() -> None:
    made = quiet()
    made.offer(entry("1-6"))
    made.offer(entry("1-7"))
    assert made.accept_offer() is None
    assert next_of(made) == "Take 4"


@pytest.mark.parametrize("last_id", ["1-6", "1-7"])
def test_what_a_wake_up_brought_is_not_signed_once_it_was_taken(last_id: str) -> None:
    made = quiet()
    made.offer(entry("1-6"))
    made.head.took(last_id)
    assert made.accept_offer() is None
    assert next_of(made) == "Take 4"


def test_what_is_signed_ahead_needs_only_room() -> None:
    made = quiet()
    made.signed_ahead = True
    assert next_of(made) == "Take 4"
    made.is_in(LaneState.PAUSED)
    assert next_of(made) == "nothing"


def test_more_can_be_signed_ahead_while_more_may_be_queued_and_the_lane_takes_it() -> None:
    made = quiet()
    assert not made.more_is_queued()
    made.take_again()
    assert made.more_is_queued()
    made.is_in(LaneState.PAUSED)
    assert not made.more_is_queued()


def test_a_send_and_its_answer_are_remembered_with_the_flight() -> None:
    one = flight(1, sent_at=5)
    made = plan(one)
    [bytes_] = one.record.attempts
    made.sending([(one, bytes_)], NOW)
    assert one.sent_at == NOW
    taken = SendReply(Verdict.ACCEPTED, "")
    assert made.answered(one, bytes_, taken) is True
    assert one.reply is taken
    assert made.answered(one, bytes_, SendReply(Verdict.BUSY, "")) is False


@pytest.mark.parametrize(("verdict", "size"), [(Verdict.BUSY, 4), (Verdict.UNAVAILABLE, 8)])
def test_a_node_without_room_halves_a_window_that_grew(verdict: Verdict, size: int) -> None:
    flights = [flight(n, sent_at=NOW) for n in range(4)]
    made = SigningPlan(replace(POLICY, max_window=64), EVM, lane())
    made.flights.replace_all(flights)
    made.flights.room()
    assert made.flights.window.size == 8
    made.answered(flights[0], flights[0].record.attempts[0], SendReply(verdict, ""))
    assert made.flights.window.size == size


def test_only_one_at_a_time_and_only_a_gap_that_blocks_change_what_follows() -> None:
    one = flight(1, sent_at=NOW)
    [bytes_] = one.record.attempts
    made = plan(one)
    made.answered(one, bytes_, SendReply(Verdict.BUSY, ""))
    assert made.flights.single == 0
    made.answered(one, bytes_, SendReply(Verdict.ONE_AT_A_TIME, ""))
    assert made.flights.single == NOW
    one.sent_at = NOW + 5
    made.answered(one, bytes_, SendReply(Verdict.ONE_AT_A_TIME, ""))
    assert made.flights.single == NOW, "since the first time"
    one.reply = SendReply(Verdict.ACCEPTED, "")
    made.answered(one, bytes_, SendReply(Verdict.NONCE_GAP, ""))
    assert made.start_turn() is False, "a gap is harmless here"
    evm = plan(one, traits=EVM)
    evm.answered(one, bytes_, SendReply(Verdict.BUSY, ""))
    assert evm.start_turn() is False
    evm.answered(one, bytes_, SendReply(Verdict.NONCE_GAP, ""))
    assert evm.start_turn() is True


@pytest.mark.parametrize(
    ("landed", "settled", "next_nonce", "empty"),
    [
        (None, -1, 1, [1, 2]),
        (None, -1, 0, [0, 1, 2]),
        (1, -1, 1, [2]),
        (None, 1, 0, [2]),
        (0, 1, 0, [2]),
        (2, -1, 0, []),
    ],
)
def test_settled_numbers_are_never_empty(landed: int | None, settled: int, next_nonce: int, empty: list[int]) -> None:
    made = plan(traits=EVM, stored=lane(cursor=3, landed=landed))
    made.gaps.settled(settled)
    assert made.see_chain(NonceView(next_nonce, 5), NOW) == empty


def test_a_lane_without_a_cursor_and_one_whose_callers_sign_have_no_gaps() -> None:
    new = plan(traits=EVM, stored=lane(cursor=None))
    new.head.moved(5)
    assert new.see_chain(NonceView(0, 5), NOW) == []
    assert KeylessPlan(POLICY, EVM, lane(keyless=True)).see_chain(NonceView(0, 5), NOW) == []


def test_bytes_that_a_no_op_replaced_are_not_sent_again() -> None:
    one = flight(1, attempt(1, Purpose.NOOP))
    assert next_of(unsent(plan(one, traits=EVM), one)) == "Take 3"


def test_bytes_without_an_answer_are_sent_again() -> None:
    one = flight(1, reply=None)
    assert next_of(unsent(plan(one), one)) == "SendAgain [1]"


def test_what_went_alone_is_over_once_it_ended_or_is_held_and_not_before_it_is_heard_of() -> None:
    assert next_of(solo(flight(1, reply=None))) == "nothing"
    gone = flight(1)
    made = plan()
    made.went_alone(gone)
    assert next_of(made) == "Take 4"
    held = flight(1, status=Status.HELD)
    made = plan(held)
    made.went_alone(held)
    assert next_of(made) == "Take 4"
    other, refused_one = flight(2), refused(1, Verdict.EXPIRED)
    made = plan(refused_one, other)
    made.went_alone(refused_one)
    unsent(made, other)
    assert next_of(made) == "SendAgain [2]"
    assert made.solo is refused_one, "something is unsent: its turn may come again"


def test_a_re_sign_needs_a_lane_that_signs_and_nothing_open_beside() -> None:
    one = dead(1)
    resign = Resign({attempt(1).name: {"cause": "overtaken"}}, False, "why")
    assert plan(one).may_sign_alone(one, resign)
    assert not plan(one, flight(2)).may_sign_alone(one, resign)
    one.ending = True
    assert not plan(one).may_sign_alone(one, resign), "its end is being stored"
    one.ending = False
    assert not plan(one, stored=lane(LaneState.QUARANTINED)).may_sign_alone(one, resign)


def test_a_bid_is_about_the_highest_open_nonce_and_what_stands_there() -> None:
    one = flight(1, attempt(3))
    made = plan(one, traits=EVM)
    found = made.bid(one, KILL)
    assert found is not None
    assert (found.nonce, found.rivals, found.noop) == (3, [attempt(3)], None)
    assert made.bid(one, Replace(attempt(3), "why")) is not None
    assert plan(one, traits=EVM, stored=lane(LaneState.QUARANTINED)).bid(one, KILL) is None
    landed = flight(1, sightings={attempt(1).name: Sighting("included")})
    assert plan(landed, traits=EVM).bid(landed, KILL) is None, "nothing of it is open"
    noop = attempt(1, Purpose.NOOP)
    killed = flight(1, noop)
    bid = plan(killed, traits=EVM).bid(killed, Replace(max(killed.record.attempts, key=lambda a: a.signed_at), "why"))
    assert bid is not None
    assert bid.noop == noop, "a no-op is outbid by a no-op"


def test_of_two_that_want_more_the_one_whose_newest_nonce_is_lower_goes_first() -> None:
    old, new = flight(1, attempt(7), order=KILL), flight(3, order=KILL)
    assert next_of(plan(old, new, traits=EVM)) == "Outbid 3"


def test_signed_bytes_go_out_as_they_were_signed() -> None:
    batch = [(LOW, LOW.record.attempts[0])]
    assert plan(LOW).lowest_first(batch) is batch
    assert plan(LOW).go_on(batch, 0) == ()


def test_a_keyless_lane_without_unsent_bytes_sends_nothing() -> None:
    assert next_of(keyless()) == "Take 4"


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


def test_numbers_that_callers_chose_go_out_lowest_first() -> None:
    low, high = flight(1), flight(2)
    batch = [(f, f.record.attempts[0]) for f in (high, low)]
    assert [a.nonce for _, a in keyless(low, high).lowest_first(batch)] == [1, 2]


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
