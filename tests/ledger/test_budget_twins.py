"""A random walk over budgets, on memory and on another store at once: every answer is the same."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.ledger.twins import Side, Twins
from txmanager.core.budgets import DAY_MS, EVER, Budget, Charge, Correction
from txmanager.core.ledger import APPEND_WITHIN_MS
from txmanager.core.models import IntentId
from txmanager.ledger.redis.scripts import build, script
from txmanager.testing.ledger.stage import POOL

BUDGETS = (Budget("token:bob/net/60d", 12, 60 * DAY_MS), Budget("pool:pool/ever", 20, EVER))
_numbers = itertools.count()
_server: list[str] = []

WHICH = {"first": [0], "second": [1], "both": [0, 1], "other": [1, 0], "third": [0, 1]}
"""The budgets of each life. Memory charges them one by one: where only one of two knew a life, its turns differ."""
lives = st.sampled_from(list(WHICH))
ages = st.sampled_from([0, 0, 0, APPEND_WITHIN_MS * 2, -APPEND_WITHIN_MS * 2])
limits = st.sampled_from([None, 5, 50])


class BudgetWalk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.twins = Twins(self.runner, _server[0], f"budgets{next(_numbers)}-{id(self)}")

    def teardown(self) -> None:
        self.twins.close()
        self.runner.close()

    @rule(life=lives, units=st.sampled_from([1, 4, 9]), age=ages)
    def charge(self, life: str, units: int, age: int) -> None:
        async def question(s: Side) -> object:
            born = await s.ledger.now_ms() - age
            charge = Charge(IntentId(POOL, life), life, born, units, tuple(BUDGETS[n] for n in WHICH[life]))
            [answer] = await s.ledger.charge([charge])
            return answer.word, answer.turns, answer.budget

        self.twins.ask("charge", question)

    @rule(life=lives, units=st.sampled_from([0, 3, 9]), days=st.integers(0, 70))
    def correct(self, life: str, units: int, days: int) -> None:
        async def question(s: Side) -> object:
            at = await s.ledger.now_ms() - days * DAY_MS
            return await s.ledger.correct([Correction(b.name, b.per_ms, life, units, at) for b in BUDGETS])

        self.twins.ask("correct", question)

    @rule(life=lives, turn=st.sampled_from([1, 1, 2]))
    def uncharge(self, life: str, turn: int) -> None:
        self.twins.ask("uncharge", lambda s: s.ledger.uncharge(life, {b.name: turn for b in BUDGETS}))

    @rule(limit=limits, expected=limits)
    def override(self, limit: int | None, expected: int | None) -> None:
        self.twins.ask("override", lambda s: s.ledger.override(BUDGETS[0].name, limit, expected))

    @invariant()
    def every_budget_is_the_same(self) -> None:
        async def question(s: Side) -> object:
            found = await s.ledger.usage([budget.name for budget in BUDGETS])
            return [(one.open, dict(one.spent), one.override, one.moved) for one in found]

        self.twins.ask("usage", question)


@pytest.fixture
def on_a_fast_server(make_server) -> Iterator[None]:
    _server[:] = [make_server().url]
    yield
    _server.clear()


walks = settings(
    phases=[Phase.reuse, Phase.generate],
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_memory_and_redis_answer_every_walk_over_budgets_alike(on_a_fast_server):
    run_state_machine_as_test(BudgetWalk, settings=walks)


def test_memory_and_durable_objects_answer_every_walk_over_budgets_alike(durable):
    _server[:] = [durable.url]
    try:
        run_state_machine_as_test(BudgetWalk, settings=settings(walks, max_examples=15))
    finally:
        _server.clear()


@pytest.mark.parametrize(
    ("name", "guard", "without"),
    [
        ("correct", "'e ' .. life", "'x ' .. life"),
        ("uncharge", "stands == turn", "true"),
        ("charge", "(charged or digits(units))", "digits(units)"),
    ],
)
def test_walk_over_budgets_notices_a_missing_guard(name: str, guard: str, without: str, on_a_fast_server):
    broken = build(name, script(name).text.replace(guard, without))

    class Broken(BudgetWalk):
        def __init__(self) -> None:
            super().__init__()
            self.twins.other.runner.scripts[name] = broken

    with pytest.raises(AssertionError, match="memory"):
        run_state_machine_as_test(
            Broken, settings=settings(walks, max_examples=300, phases=[Phase.generate], database=None)
        )
