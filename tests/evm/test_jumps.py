"""One node's word about prices, held against our own history and against a second node's: pure arithmetic."""

from __future__ import annotations

import pytest

from txmanager.chains.evm.jumps import Level, after, believed, enough, limit
from txmanager.chains.evm.network import GWEI, EvmNetwork
from txmanager.chains.evm.transaction import Fees

NET = EvmNetwork(max_fee=500 * GWEI, doubles_within_s=60.0)
SMALL, UNKNOWN = 10 * GWEI, 500 * GWEI // 8


def test_small_prices_are_never_questioned():
    for level in (None, Level(0, 0.0), Level(7, 0.0)):
        assert limit(level, 0.0, NET, alone=False) == SMALL
    assert limit(Level(7, 0.0), 1.0, NET, alone=True) == SMALL


def test_a_first_word_alone_is_believed_far_below_the_cap():
    assert limit(None, 0.0, NET, alone=True) == UNKNOWN


def test_twice_the_last_price_is_believed_at_once_and_more_only_with_time():
    level = Level(20 * GWEI, 100.0)
    assert limit(level, 100.0, NET, alone=True) == limit(level, 100.0, NET, alone=False) == 40 * GWEI
    assert limit(level, 160.0, NET, alone=True) == 80 * GWEI
    assert limit(level, 160.0, NET, alone=False) == 40 * GWEI, "others can be asked"


def test_a_pause_between_readings_does_not_make_everything_believable():
    assert limit(Level(GWEI, 0.0), 599.0, NET, alone=True) == SMALL
    assert limit(Level(20 * GWEI, 0.0), 599.0, NET, alone=True) == 160 * GWEI
    assert limit(Level(GWEI, 0.0), 10**9, NET, alone=True) == UNKNOWN, "a history so old says nothing"


def test_a_clock_that_was_set_back_believes_no_more():
    assert limit(Level(20 * GWEI, 100.0), 0.0, NET, alone=True) == 40 * GWEI


@pytest.mark.parametrize(
    ("told", "others", "expected"),
    [(5, [], 5), (10, [], 10), (11, [], 10), (99, [], 10), (99, [3], 3), (99, [98, 2], 98), (99, [200], 99)],
)
def test_above_the_limit_a_second_node_decides(told: int, others: list[int], expected: int):
    assert believed(told, others, 10) == expected


def test_a_node_that_lies_at_every_reading_gains_no_more_than_time_allows():
    for alone, most in ((True, 2 * 2 * 20 * GWEI), (False, 2 * 20 * GWEI)):
        level, price = Level(20 * GWEI, 0.0), 0
        for second in range(61):
            price = believed(10**30, [], limit(level, float(second), NET, alone=alone))
            level = after(level, price, float(second), NET, alone=alone, confirmed=False)
        assert price <= most * 1.01


def test_one_low_answer_does_not_forget_what_the_chain_costs():
    level = after(Level(64 * GWEI, 0.0), 0, 1.0, NET, alone=True, confirmed=False)
    assert level.price > 60 * GWEI
    assert after(Level(64 * GWEI, 0.0), 0, 10**6, NET, alone=True, confirmed=False).price == 16 * GWEI


def test_what_a_second_node_confirms_is_the_new_history():
    assert after(Level(GWEI, 0.0), 90 * GWEI, 1.0, NET, alone=False, confirmed=True) == Level(90 * GWEI, 1.0)


def test_a_first_word_alone_is_not_believed_twice_over_at_the_second():
    level = after(None, UNKNOWN, 0.0, NET, alone=True, confirmed=False)
    assert limit(level, 0.0, NET, alone=True) <= UNKNOWN


def test_no_replacement_is_worth_many_times_the_market():
    assert enough(Fees(7, 1), NET) == SMALL
    assert enough(Fees(30 * GWEI, 1), NET) == 300 * GWEI
