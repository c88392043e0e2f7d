"""Hypothesis lies for one of two nodes: any field of any answer. Nothing is settled wrongly, no lane is stopped by the
liar, and every intent ends once it is quiet. The chain and the clock are simulated; all else is the production code.

`FUZZED_LIES` is the number of examples (a few here; thousands by hand)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sim.fuzzed import EVM_ERRORS, EVM_METHODS, NEAR_ERRORS, NEAR_METHODS, Lie, run_evm, run_near

EXAMPLES = int(os.environ.get("FUZZED_LIES", "60"))
VALUES = st.one_of(
    st.sampled_from([None, True, "", "x", "0x0", "0x1", "0xzz", "1" * 32, [], {}, -1, 1.5, "FINAL", "NONE", "Failure"]),
    st.sampled_from([{"Failure": {"ActionError": {"index": 0, "kind": "X"}}}, {"SuccessValue": ""}, 2**70, -(2**70)]),
    st.integers(-50, 50),
)


def lies(methods: tuple[str, ...], errors: tuple[str, ...]) -> st.SearchStrategy[list[Lie]]:
    lie = st.builds(
        Lie,
        method=st.sampled_from(methods),
        field=st.integers(0, 60),
        value=VALUES.filter(lambda v: isinstance(v, str | int | float | type(None))),
        error=st.one_of(st.none(), st.none(), st.sampled_from(errors)),
        every=st.integers(1, 3),
    )
    return st.lists(lie, min_size=1, max_size=6)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 500), told=lies(NEAR_METHODS, NEAR_ERRORS))
def test_no_lie_of_one_near_node_breaks_a_promise(seed: int, told: list[Lie]) -> None:
    result = run_near(seed, told)
    assert not result.violations, (seed, told, result.violations[0])


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 500), told=lies(EVM_METHODS, EVM_ERRORS))
def test_no_lie_of_one_evm_node_breaks_a_promise(seed: int, told: list[Lie]) -> None:
    result = run_evm(seed, told)
    assert not result.violations, (seed, told, result.violations[0])
