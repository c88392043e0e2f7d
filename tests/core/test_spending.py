"""What an intent may cost: the lowest rule, as it was noted, and never more than can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from txmanager.core.models import Json, new_intent
from txmanager.core.spending import allowed, noted

INTENT = new_intent(key="k", pool="p", kind="near.transfer", payload={})


def test_the_lowest_limit_is_noted_as_digits():
    assert noted(None, None) == {}
    assert noted(10**30, None) == noted(None, 10**30) == {"max_cost": "1" + "0" * 30}
    assert noted(5, 7) == noted(7, 5) == {"max_cost": "5"}
    assert noted(0, 7) == {"max_cost": "0"}


def test_what_was_noted_and_what_the_pool_says_now_both_count():
    limited = replace(INTENT, limits=noted(5))
    assert allowed(INTENT, None) is None
    assert allowed(INTENT, 7) == 7
    assert allowed(limited, None) == allowed(limited, 7) == 5
    assert allowed(limited, 3) == 3


@pytest.mark.parametrize("told", [None, "", "x", "1e9", "-1", "٣", 5, 5.0, [], "9" * 200])
def test_a_limit_that_nobody_can_read_allows_nothing(told: Json):
    assert allowed(replace(INTENT, limits={"max_cost": told}), None) == 0


def test_limits_are_no_part_of_the_fingerprint():
    made = new_intent(key="k", pool="p", kind="near.transfer", payload={}, limits=noted(5))
    assert made.fingerprint == INTENT.fingerprint
