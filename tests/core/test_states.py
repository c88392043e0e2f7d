"""The table of transitions is the one of the specification, and is documented state by state."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

from txmanager.core import states
from txmanager.core.states import (
    FINAL,
    LANE_TRANSITIONS,
    TRANSITIONS,
    LaneState,
    Status,
    lane_sources,
    legal,
    sources,
)

SPECIFIED = {
    "queued": "inflight failed cancelled held",
    "inflight": "done failed cancelled held",
    "held": "done failed cancelled inflight queued",
    "done": "",
    "failed": "",
    "cancelled": "",
}


def test_exactly_the_specified_transitions_are_legal():
    for before, after in itertools.product(Status, Status):
        assert legal(before, after) == (after.value in SPECIFIED[before].split()), f"{before} -> {after}"


def test_sources_are_the_table_read_backwards():
    for after in Status:
        expected = {before for before in Status if legal(before, after)}
        assert sources(after) == sources.__wrapped__(after) == expected, "as it was read first, and read anew"


def test_final_states_are_those_nothing_leaves():
    assert {status for status in Status if not TRANSITIONS[status]} == FINAL == {s for s in Status if s.final}


def test_every_state_can_reach_a_final_one():
    for status in set(Status) - FINAL:
        assert TRANSITIONS[status] & FINAL


def test_a_queued_intent_is_never_done():
    assert not legal(Status.QUEUED, Status.DONE)


def test_a_closed_lane_stays_closed_and_only_a_drained_one_closes():
    assert LANE_TRANSITIONS[LaneState.CLOSED] == frozenset()
    assert lane_sources(LaneState.CLOSED) == {LaneState.DRAINING}


def test_every_open_lane_can_be_quarantined():
    assert lane_sources(LaneState.QUARANTINED) == set(LaneState) - {LaneState.QUARANTINED, LaneState.CLOSED}


@pytest.mark.parametrize("enum", [Status, LaneState])
def test_every_state_says_who_moves_it_on(enum):
    """Each member is followed by its own documentation."""
    tree = ast.parse(Path(states.__file__).read_text())
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == enum.__name__)
    documented = {
        assignment.value.value
        for assignment, text in itertools.pairwise(body)
        if isinstance(assignment, ast.Assign)
        and isinstance(assignment.value, ast.Constant)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
    assert documented == {member.value for member in enum}
