"""Top-ups under faults: each purse is paid once, never above its high, within the treasury's budget; and is paid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.sim.loop import PROCESS
from tests.sim.purses import world
from tests.sim.purses.world import run
from txmanager.chains.near.purses import PURSES
from txmanager.core import purses as rules
from txmanager.core.budgets import MOST_UNITS, Bill, Budget
from txmanager.runtime.accept.billing import Billed, Billing
from txmanager.runtime.care import top_ups

SEEDS = range(40)
HUNTED = range(20)


def test_every_purse_is_paid_once_and_within_the_budget_in_every_schedule() -> None:
    paid = 0
    for seed in SEEDS:
        played = run(seed)
        assert not played.violations, (seed, played.violations[:3])
        paid += len(played.paid)
    assert paid == 2 * len(SEEDS), "every schedule fills up both purses"


def test_a_schedule_of_monitors_replays_step_by_step() -> None:
    assert run(3) == run(3)


# -- seeded bugs


@contextmanager
def key_of_the_process() -> Iterator[None]:
    """Whoever asks is part of the name under which a payment is known."""

    def who() -> str:
        process = PROCESS.get()
        return process.name if process is not None else ""

    def key(purse: str, amount: int, now: int, every_ms: int) -> str:
        return f"{rules.top_up_key(purse, amount, now, every_ms)}:{who()}"

    def once(purse: str, units: int, every_ms: int) -> Budget:
        return rules.one_at_a_time(f"{purse}:{who()}", units, every_ms)

    with patch.object(top_ups, "top_up_key", key), patch.object(top_ups, "one_at_a_time", once):
        yield


@contextmanager
def one_for_each_lane() -> Iterator[None]:
    """Every lane's purse is its own, as if no two shared an account."""
    side = replace(
        PURSES,
        of=lambda lane, name: f"{PURSES.of(lane, name)}@{lane.rpartition(':')[2]}",
        pay=lambda purse, amount: PURSES.pay(purse.partition("@")[0], amount),
    )
    with patch.object(world, "SIDE", side):
        yield


@contextmanager
def again_while_the_first_is_unsettled() -> Iterator[None]:
    def once(purse: str, units: int, every_ms: int) -> Budget:
        return replace(rules.one_at_a_time(purse, units, every_ms), limit=MOST_UNITS)

    stack = ExitStack()
    stack.enter_context(patch.object(top_ups, "one_at_a_time", once))
    stack.enter_context(patch.object(top_ups, "settled_recently", lambda usage, budget: False))
    with stack:
        yield


@contextmanager
def looked_and_then_paid() -> Iterator[None]:
    """The book is read first, and nothing holds until the payment is in it: two monitors look at once."""

    def once(purse: str, units: int, every_ms: int) -> Budget:
        return replace(rules.one_at_a_time(purse, units, every_ms), limit=MOST_UNITS)

    with patch.object(top_ups, "one_at_a_time", once):
        yield


@contextmanager
def budget_is_no_cap() -> Iterator[None]:
    sound = Billing.bill

    def bill(self: Billing, *args: Any, beside: Callable[[int], tuple[Budget, ...]]) -> Billed:
        billed = sound(self, *args, beside=beside)
        assert billed.bill is not None
        return replace(billed, bill=Bill(billed.bill.units, beside(billed.bill.units)))

    with patch.object(Billing, "bill", bill):
        yield


@pytest.mark.parametrize(
    "bug",
    [key_of_the_process, one_for_each_lane, again_while_the_first_is_unsettled, looked_and_then_paid, budget_is_no_cap],
)
def test_a_seeded_bug_of_top_ups_is_caught(bug) -> None:
    with bug():
        assert any(run(seed).violations for seed in HUNTED), f"{bug.__name__} went through unseen"
