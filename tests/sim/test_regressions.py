"""What schedules found, told as small stories of their own: each with the bug planted again, to see it break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.mutants import MUTANTS
from tests.sim.plan import Event
from tests.sim.stories import QUIET, STORIES, tell


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_well_and_badly_with_its_bug(name: str) -> None:
    """A former owner does not vouch for a ledger that forgot its successor; a clock set back delays nothing."""
    for plan, arrivals in STORIES[name]:
        assert tell(plan, arrivals)[0] == []
    with MUTANTS[name].planted():
        assert any(tell(plan, arrivals)[0] for plan, arrivals in STORIES[name])


@pytest.mark.parametrize("window", [1, 2])
def test_what_is_cancelled_in_a_full_window_ends(window: int) -> None:
    """All that is in flight is lost on the way and cancelled: nothing will ever land and kill it."""
    everything_is_dropped = {"drop": 1.0}
    events = (Event("cancel", 3.0, 0.0, 0.0), Event("cancel", 3.1, 0.6, 0.0))
    plan = replace(QUIET, window=window, chaos_s=6.0, rates=everything_is_dropped, events=events)
    violations, world = tell(plan, [1.0, 1.1])
    assert violations == []
    assert not any(store.records for store in world.ledger.stores.values())
