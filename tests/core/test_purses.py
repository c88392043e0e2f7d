"""What is paid into a purse and when, how fast a treasury is spent: from numbers alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.core.budgets import BUCKETS, DAY_MS, EVER, Budget, Usage, check_charges
from txmanager.core.models import check_key
from txmanager.core.purses import (
    Marks,
    amount_due,
    days_left,
    meter,
    one_at_a_time,
    settled_recently,
    short,
    top_up_key,
    units_per_day,
)

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("balance", "high", "on_its_way", "due"),
    [
        (4, 20, False, 16),
        (5, 20, False, 0),
        (0, 20, False, 20),
        (4, 20, True, 0),
        (4, None, False, 0),
        (30, 20, False, 0),
    ],
)
def test_a_purse_below_its_low_is_filled_up_to_its_high_unless_a_payment_is_on_its_way(balance, high, on_its_way, due):
    assert amount_due(balance, Marks(5, high), on_its_way) == due


@given(st.integers(0, 10**27), st.integers(0, 10**26), st.integers(1, 10**26), st.booleans())
def test_a_payment_never_lifts_a_purse_above_its_high(balance: int, low: int, more: int, on_its_way: bool):
    high = low + more
    due = amount_due(balance, Marks(low, high), on_its_way)
    assert due >= 0
    assert balance + due <= max(balance, high)
    assert not (due and on_its_way)


def test_a_key_names_purse_span_and_amount_and_fits_whatever_the_purse_is_called():
    assert top_up_key("evm:1:0xab", 7, 10_500, 1_000) == "top-up:evm:1:0xab:10:7"
    long = "near:mainnet:relayer.near:ml-dsa-65:" + "x" * 2_700
    for purse in ("evm:1:0xab", long, "y" * 180, "y" * 181):
        check_key(top_up_key(purse, 2**128, NOW, 60_000))
    assert short(long) != short(long[:-1] + "y")
    assert len(meter(long).name) <= 400


def test_a_purse_s_budget_holds_one_payment_while_it_is_open_and_for_a_span_after_it():
    budget = one_at_a_time("p", 50, 60_000)
    assert budget.limit == 50, "a second payment of any size is above it"
    assert settled_recently(Usage("p", open=50, now=NOW), budget)
    bucket = NOW // budget.bucket_ms
    assert settled_recently(Usage("p", spent={bucket: 50}, now=NOW + 59_000), budget)
    assert not settled_recently(Usage("p", spent={bucket: 50}, now=NOW + 62_000), budget)
    assert not settled_recently(Usage("p", spent={bucket: 0}, now=NOW), budget), "never signed: nothing was paid"
    assert budget.per_ms // BUCKETS == budget.bucket_ms
    check_charges([])


def test_the_rate_of_a_day_is_taken_over_the_span_and_not_from_a_moment():
    week = Budget("b", 10**9, 7 * DAY_MS)
    start = (NOW // week.bucket_ms) * week.bucket_ms
    spent = {start // week.bucket_ms: 700}
    assert units_per_day(Usage("b", spent=spent, now=start + 1_000), week) == 700, "one payment is no rate of seconds"
    assert units_per_day(Usage("b", spent=spent, now=start + 2 * DAY_MS), week) == 350
    assert units_per_day(Usage("b", spent={}, now=start), week) == 0
    hour = Budget("b", 10**9, 3_600_000)
    spent = {start // hour.bucket_ms: 61}
    assert units_per_day(Usage("b", spent=spent, now=start + 1_000), hour) == 24 * 60
    ever = Budget("b", 10**9, EVER)
    days = start // DAY_MS
    told = Usage("b", spent={days - 9: 50, days: 50}, now=(days + 1) * DAY_MS)
    assert units_per_day(told, ever) == 10


def test_days_left_are_none_while_nothing_is_spent():
    assert days_left(9, 0) is None
    assert days_left(9, 3) == 3.0
