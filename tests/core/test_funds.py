"""The rule that tells a poor lane from an intent that asks for too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.core.funds import FREE, Cost, Finding, Funds, Purse, Reserve, Word, dearest, judge, total

money = st.integers(0, 2**100)
costs = st.builds(Cost, money, money)
reserves = st.builds(Reserve, st.none() | money, st.none() | money)


def funds(balance: int, *more: Purse) -> Funds:
    return Funds((Purse("account", balance), *more), 7)


def word(cost: Cost, balance: int, committed: Cost = FREE, reserve: Reserve = Reserve()) -> Word:  # noqa: B008
    return judge(cost, funds(balance), committed, reserve).word


@pytest.mark.parametrize(
    ("cost", "balance", "committed", "reserve", "expected"),
    [
        (Cost(1, 9), 10, FREE, Reserve(), Word.PROCEED),
        (Cost(1, 9), 10, Cost(1), Reserve(), Word.WAIT),
        (Cost(1, 10), 10, FREE, Reserve(), Word.FAIL),
        (Cost(1, 10), 10, Cost(9), Reserve(), Word.FAIL),
        (Cost(11, 0), 10, FREE, Reserve(), Word.PAUSE),
        # An amount that the pool allows is the lane's business: it pauses and is filled up.
        (Cost(1, 10), 10, FREE, Reserve(max_deposit=10), Word.PAUSE),
        (Cost(1, 12), 11, FREE, Reserve(max_deposit=10), Word.FAIL),
        # What fits is signed, however small the lane is beside its limits.
        (Cost(1, 3), 5, FREE, Reserve(max_deposit=100), Word.PROCEED),
        # An operator's own reserve: below it nothing is signed, above it whatever does not fit fails.
        (Cost(1, 1), 19, FREE, Reserve(wanted=20), Word.PAUSE),
        (Cost(1, 1), 20, FREE, Reserve(wanted=20), Word.PROCEED),
        (Cost(30, 0), 20, FREE, Reserve(wanted=20), Word.FAIL),
        (Cost(30, 0), 20, FREE, Reserve(wanted=0), Word.FAIL),
        # Far more gas than anybody buys is no sign of poverty.
        (Cost(30, 0, usual=15), 20, FREE, Reserve(), Word.FAIL),
        (Cost(30, 0, usual=15), 14, FREE, Reserve(), Word.PAUSE),
        (Cost(30, 0, usual=15), 20, FREE, Reserve(max_deposit=6), Word.PAUSE),
    ],
)
def test_the_rule(cost, balance, committed, reserve, expected):
    assert word(cost, balance, committed, reserve) is expected


def test_each_purse_is_asked_for_its_own_part():
    gas_key = Purse("gas_key", 5, deposits=False)
    account = Purse("account", 100, fees=False)
    both = Funds((gas_key, account), 1)
    assert judge(Cost(5, 100), both, FREE, Reserve()).word is Word.PROCEED
    too_much = judge(Cost(5, 101), both, FREE, Reserve())
    assert (too_much.word, too_much.purse.name, too_much.needs) == (Word.FAIL, "account", 101)
    no_gas = judge(Cost(6, 101), both, FREE, Reserve())
    assert (no_gas.word, no_gas.purse.name) == (Word.PAUSE, "gas_key"), "a poor lane fails nobody"


def test_an_operators_reserve_is_the_accounts_and_not_an_allowances():
    allowance = Purse("allowance", 5, deposits=False)
    found = judge(Cost(4, 0), Funds((allowance, Purse("account", 100)), 1), FREE, Reserve(wanted=50))
    assert found.word is Word.PROCEED


@given(costs, money, costs, reserves)
def test_only_what_the_whole_balance_cannot_pay_fails_and_only_above_the_reserve(cost, balance, committed, reserve):
    found = judge(cost, funds(balance), committed, reserve)
    if found.word is Word.FAIL:
        assert cost.fee + cost.deposit > balance
        assert balance >= reserve.of(found.purse, cost)
    if found.word is Word.WAIT:
        assert judge(cost, funds(balance), FREE, reserve).word is Word.PROCEED, "it waits for nothing but its own lane"
    if found.word is Word.PROCEED:
        assert total([cost, committed]).fee + total([cost, committed]).deposit <= balance


@given(costs, money, money, costs, reserves)
def test_more_money_never_makes_a_lane_poor(cost, balance, more, committed, reserve):
    if word(cost, balance, committed, reserve) is not Word.PAUSE:
        assert word(cost, balance + more, committed, reserve) is not Word.PAUSE


@given(st.lists(costs))
def test_one_of_several_attempts_at_one_number_takes_no_more_than_the_dearest(several):
    most = dearest(several)
    assert all(cost.fee <= most.fee and cost.deposit <= most.deposit for cost in several)


def test_what_it_says_names_the_numbers():
    found = judge(Cost(1, 10), funds(10), FREE, Reserve())
    assert found.message == "it may cost 11, and the lane's account has 10; nothing was spent"


def test_costs_add_up_and_the_dearest_of_one_number_is_taken_part_by_part():
    assert total([Cost(1, 10), Cost(2, 20)]) == Cost(3, 30)
    assert dearest([Cost(1, 20), Cost(2, 10)]) == Cost(2, 20)
    assert (total([]), dearest([])) == (Cost(0, 0), Cost(0, 0))


def test_of_two_readings_each_purse_has_its_higher_balance():
    before, after = (
        funds(9, Purse("allowance", 1)),
        Funds((Purse("account", 5), Purse("allowance", 3)), 8, refunds=True),
    )
    assert after.highest(before) == Funds((Purse("account", 9), Purse("allowance", 3)), 8, refunds=True)
    assert before.highest(Funds((), 1)) == before


def test_without_a_limit_the_reserve_of_a_lane_is_the_fee_alone():
    purse = Purse("account", 5)
    assert Reserve().of(purse, Cost(3, 100)) == 3
    assert Reserve(max_deposit=10).of(purse, Cost(3, 100, usual=2)) == 12
    assert Reserve(wanted=20).of(Purse("gas_key", 5, deposits=False), Cost(3)) == 3


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Word.PROCEED, "the lane's gas key has 5, and it needs 3"),
        (Word.WAIT, "the lane's gas key has 5; it needs 3 beside what is on its way"),
        (Word.FAIL, "it may cost 3, and the lane's gas key has 5; nothing was spent"),
        (Word.PAUSE, "the lane's gas key has 5, and needs 3 to go on"),
    ],
)
def test_a_finding_says_what_the_purse_has_and_what_is_needed(found: Word, words: str):
    assert Finding(found, Purse("gas_key", 5), 3).message == words
