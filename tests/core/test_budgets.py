"""Budgets, purely: windows, what is left, when enough is free, and what an intent carries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.core.budgets import (
    DAY_MS,
    EVER,
    MOST_UNITS,
    SLOTS,
    Bill,
    Budget,
    Charged,
    Usage,
    charge_of,
    check_charges,
    corrections,
    cost_of,
    excess,
    in_units,
    noted_charge,
    refusal,
    slot_of,
)
from txmanager.core.errors import BudgetExhausted, InvalidInput, Unavailable
from txmanager.core.models import Attempt, IntentId, Outcome, Purpose, Record, new_intent
from txmanager.core.states import Status

DAY = Budget("token:bob/net/1d", 100, DAY_MS)
WIDTH = DAY.bucket_ms
NOW = 20_000 * DAY_MS + 12_345
HERE = NOW // WIDTH


def used(**more: object) -> Usage:
    return replace(Usage(DAY.name, now=NOW), **more)


def test_buckets_are_a_sixtieth_of_the_span_and_a_day_where_it_never_ends() -> None:
    assert WIDTH * 60 == DAY_MS
    assert Budget("x", 1, EVER).bucket_ms == DAY_MS


def test_left_is_never_negative_even_after_an_excess() -> None:
    assert used(open=40, spent={HERE: 30}).left(DAY) == 30
    assert used(open=90, spent={HERE: 30}).left(DAY) == 0
    assert used(open=90, override=200).left(DAY) == 110


def test_bucket_is_free_a_whole_span_after_its_end() -> None:
    oldest = (NOW - DAY_MS) // WIDTH
    usage = used(spent={oldest - 1: 100, oldest: 60, HERE: 40})
    assert usage.costs(DAY) == 100
    wait = usage.free_in_ms(DAY, 60)
    assert wait == (oldest + 1) * WIDTH + DAY_MS - NOW
    assert usage.costs(DAY, NOW + wait) == 40
    assert usage.costs(DAY, NOW + wait - 1) == 100


def test_open_charges_may_give_back_at_any_moment_and_too_much_never_fits() -> None:
    assert used(open=100).free_in_ms(DAY, 1) == 5_000
    assert used().free_in_ms(DAY, 101) is None
    assert used(override=10).free_in_ms(DAY, 11) is None
    ever = Budget("x", 100, EVER)
    assert used(spent={0: 60}).free_in_ms(ever, 41) is None
    assert used(spent={0: 60}, open=20).free_in_ms(ever, 40) == 5_000


@given(
    spent=st.dictionaries(st.integers(HERE - 70, HERE), st.integers(1, 60), max_size=8),
    units=st.integers(1, 100),
)
def test_after_the_wait_that_is_told_enough_is_free_and_not_before(spent: dict[int, int], units: int) -> None:
    usage = used(spent=spent)
    wait = usage.free_in_ms(DAY, units)
    assert wait is not None
    if units <= 100 - usage.costs(DAY):
        return
    assert units <= 100 - usage.costs(DAY, NOW + wait)
    assert units > 100 - usage.costs(DAY, NOW + wait - 1)


@pytest.mark.parametrize(("amount", "units"), [(0, 1), (1, 1), (10, 1), (11, 2)])
def test_amounts_are_rounded_up_and_nothing_is_free(amount: int, units: int) -> None:
    assert in_units(amount, 10) == units


def test_places_are_few_and_all_used() -> None:
    assert {slot_of(f"token:{n}/net/1d") for n in range(2_000)} == set(range(SLOTS))


# -- an intent and its charge


def final(amount: int, outcome: Outcome, *, signed: bool = True) -> Record:
    intent = new_intent(
        key="k", pool="p", kind="x.y", payload={}, limits=noted_charge(amount, 10, [DAY, Budget("pool:p/ever", 9)])
    )
    attempts = (Attempt(1, "h", b"", Purpose.FIRST, 0),) if signed else ()
    return Record(intent, "near:net:a:1", "life", outcome.status, "1-0", 1, 7, attempts, outcome)


def test_intent_carries_its_charge_and_reads_it_back() -> None:
    noted = charge_of(final(105, Outcome(Status.DONE)).intent)
    assert noted is not None
    assert (noted.amount, noted.unit, noted.units) == (105, 10, 11)
    assert noted.budgets == ((DAY.name, DAY_MS), ("pool:p/ever", EVER))


@pytest.mark.parametrize(
    "told",
    [None, "x", {}, {"amount": "1"}, {"amount": "x", "unit": "1", "units": "1", "budgets": []},
     {"amount": "1", "unit": "0", "units": "1", "budgets": []},
     {"amount": "1", "unit": "1", "units": "1", "budgets": [["a"]]}],
)  # fmt: skip
def test_charge_that_nobody_can_read_is_none(told: object) -> None:
    intent = new_intent(key="k", pool="p", kind="x.y", payload={}, limits={"charge": told})
    assert charge_of(intent) is None


def test_costs_are_booked_by_the_end_in_every_budget() -> None:
    booked = corrections(final(105, Outcome(Status.DONE, "h", 1, cost=31)))
    assert [(c.budget, c.life, c.units, c.at) for c in booked] == [
        (DAY.name, "life", 4, 7),
        ("pool:p/ever", "life", 4, 7),
    ]
    assert corrections(final(105, Outcome(Status.DONE, cost=10**40)))[0].units == MOST_UNITS
    assert [c.bucket_ms for c in booked] == [WIDTH, DAY_MS], "as wide as the charge's own"


@pytest.mark.parametrize(("cost", "beyond"), [(900, 795), (105, 0), (31, 0), (None, 0)])
def test_only_what_was_never_charged_is_an_excess(cost: int | None, beyond: int) -> None:
    assert excess(final(105, Outcome(Status.DONE, "h", 1, cost=cost))) == beyond
    uncharged = replace(
        final(105, Outcome(Status.DONE, "h", 1, cost=cost)),
        intent=new_intent(key="k", pool="p", kind="x.y", payload={}),
    )
    assert excess(uncharged) == 0


def test_only_what_was_never_signed_is_free() -> None:
    assert cost_of(final(105, Outcome(Status.CANCELLED), signed=False)) == 0
    assert cost_of(final(105, Outcome(Status.CANCELLED))) == 105
    assert cost_of(final(105, Outcome(Status.CANCELLED, cost=0))) == 0
    assert cost_of(final(105, Outcome(Status.DONE, cost=900))) == 900


def test_refusal_says_which_budget_what_is_left_and_when() -> None:
    told = refusal(Charged("exhausted", budget=DAY, usage=used(open=70)), 31)
    assert isinstance(told, BudgetExhausted)
    assert (told.budget, told.left, told.needs, told.retry_after_s) == (DAY.name, 30, 31, 5)
    told = refusal(Charged("exhausted", budget=DAY, usage=used(open=70)), 131)
    assert isinstance(told, BudgetExhausted)
    assert told.retry_after_s is None
    assert isinstance(refusal(Charged("moved", budget=DAY, usage=used()), 1), Unavailable)


@pytest.mark.parametrize(
    ("units", "budget", "field"),
    [
        (1, DAY, ""),
        (MOST_UNITS, DAY, ""),
        (0, DAY, "units"),
        (MOST_UNITS + 1, DAY, "units"),
        (1, replace(DAY, name="with blank "), "budget"),
        (1, replace(DAY, name=""), "budget"),
        (1, replace(DAY, limit=0), ""),
        (1, replace(DAY, limit=-1), "limit"),
        (1, replace(DAY, limit=MOST_UNITS), ""),
        (1, replace(DAY, limit=MOST_UNITS + 1), "limit"),
        (1, replace(DAY, per_ms=60_000), ""),
        (1, replace(DAY, per_ms=59_999), "per"),
        (1, replace(DAY, per_ms=EVER), ""),
    ],
)
def test_a_charge_that_cannot_be_counted_names_its_field(units: int, budget: Budget, field: str) -> None:
    charge = Bill(units, (budget,)).charge(IntentId("p", "k"), "life", NOW)
    assert (charge.units, charge.budgets, charge.life, charge.born) == (units, (budget,), "life", NOW)
    if not field:
        check_charges([charge])
        return
    with pytest.raises(InvalidInput) as caught:
        check_charges([charge])
    assert caught.value.field == field


def test_only_what_a_call_charged_first_is_its_own() -> None:
    assert Charged("charged", {"a": 1, "b": 2}).fresh == {"a": 1}


def test_the_place_of_a_budget_never_changes() -> None:
    assert [slot_of(name) for name in ("a", "b", "token:bob/net/1d")] == [30, 58, 30]


def test_a_charge_that_nobody_can_read_is_none() -> None:
    for told in ("text", 5, ["x"], {}, {"budgets": 5}):
        intent = new_intent(key="k", pool="p", kind="near.transfer", payload={}, limits={"charge": told})
        assert charge_of(intent) is None
