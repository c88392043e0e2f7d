"""What schedules found, told as small stories of their own: each with the bug planted again, to see it break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.history import Ended, Recorded
from tests.sim.mutants import MUTANTS
from tests.sim.plan import Event
from tests.sim.stories import QUIET, STORIES, Story, tell
from txmanager.core.models import Purpose
from txmanager.core.states import LaneState, Status

BY_SEAT = ("former_owner_vouches", "unconfirmed_write_ahead_is_sent_by_the_next_owner")
"""Told for each worker in turn: only one of them owns the lane."""


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_well_and_badly_with_its_bug(name: str) -> None:
    for story in STORIES[name]:
        assert tell(story)[0] == []
    with MUTANTS[name].planted():
        told = [tell(story)[0] for story in STORIES[name]]
    assert any(told) if name in BY_SEAT else all(told)


def test_a_cancelled_intent_whose_resign_was_lost_is_killed_by_a_no_op() -> None:
    [story] = STORIES["noop_waits_for_its_own_resign"]
    _, world = tell(story)
    signed = [f.purpose for f in world.history.facts if isinstance(f, Recorded) and f.id.key == "k0"]
    assert signed == [Purpose.FIRST, Purpose.RESIGN, Purpose.NOOP]
    [end] = [f for f in world.history.facts if isinstance(f, Ended) and f.id.key == "k0"]
    assert end.outcome.status is Status.CANCELLED


def test_a_cursor_that_moved_stops_its_lane_and_nothing_spins() -> None:
    [story] = STORIES["cursor_moved_is_tried_again"]
    _, world = tell(story)
    [store] = world.ledger.stores.values()
    assert (store.state, store.reason) == (LaneState.QUARANTINED, "cursor_moved")
    assert world.loop.steps < world.loop.max_steps


def test_an_intent_behind_a_resign_waits_until_a_node_spoke() -> None:
    [story] = STORIES["no_answer_is_a_refusal"]
    _, world = tell(story)
    signed = [(f.id.key, f.purpose) for f in world.history.facts if isinstance(f, Recorded)]
    assert signed == [("k0", Purpose.FIRST), ("k1", Purpose.FIRST), ("k0", Purpose.RESIGN), ("k2", Purpose.FIRST)]


@pytest.mark.parametrize("window", [1, 2])
def test_what_is_cancelled_in_a_full_window_ends(window: int) -> None:
    """All that is in flight is lost on the way and cancelled: nothing will ever land and kill it."""
    everything_is_dropped = {"drop": 1.0}
    events = (Event("cancel", 3.0, 0.0, 0.0), Event("cancel", 3.1, 0.6, 0.0))
    plan = replace(QUIET, window=window, chaos_s=6.0, rates=everything_is_dropped, events=events)
    violations, world = tell(Story(plan, [1.0, 1.1]))
    assert violations == []
    assert not any(store.records for store in world.ledger.stores.values())
