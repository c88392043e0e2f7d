"""Causes and commands: what release 0.1.0 meant, and what it would take our words for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.core.kills import Doom, KillCause, doom_of
from txmanager.core.states import LaneState
from txmanager.core.stops import (
    LaneCommand,
    PauseCause,
    QuarantineCause,
    from_reason,
    held_words,
    safe_reason,
    words_of,
)

PAUSED = LaneState.PAUSED
TEXTS = st.text(max_size=20) | st.sampled_from(["held: ", "rebaseline", "rebaseline, and stay paused"]).flatmap(
    lambda words: st.text(max_size=3).map(lambda more: words + more)
)


@pytest.mark.parametrize("cause", [PauseCause.FUNDS, PauseCause.HELD, PauseCause.REBASELINED, PauseCause.OPERATOR])
def test_owners_pauses_are_understood_by_the_older_release(cause: PauseCause) -> None:
    reason = held_words("order-7", "no_proof") if cause is PauseCause.HELD else words_of(cause)
    assert safe_reason(PAUSED, reason, cause, None) == reason
    assert from_reason(PAUSED, reason) == (cause, None)


@pytest.mark.parametrize("command", [LaneCommand.REBASELINE, LaneCommand.REBASELINE_PAUSED])
def test_commands_are_understood_by_the_older_release(command: LaneCommand) -> None:
    reason = words_of(command)
    assert safe_reason(PAUSED, reason, PauseCause.OPERATOR, command) == reason
    assert from_reason(PAUSED, reason) == (PauseCause.OPERATOR, command)


@pytest.mark.parametrize("cause", [PauseCause.OPERATOR, PauseCause.SIGNER_REFUSED])
def test_what_the_older_release_does_not_know_leaves_its_lane_paused(cause: PauseCause) -> None:
    command = LaneCommand.TRIAL if cause is PauseCause.OPERATOR else None
    stored = safe_reason(PAUSED, words_of(command or cause), cause, command)
    assert from_reason(PAUSED, stored) == (PauseCause.OPERATOR, None)


@pytest.mark.parametrize("cause", QuarantineCause)
def test_a_quarantine_of_the_older_release_keeps_its_cause(cause: QuarantineCause) -> None:
    assert from_reason(LaneState.QUARANTINED, cause.value) == (cause, None)


def test_words_that_nobody_knows_name_no_cause() -> None:
    assert from_reason(LaneState.QUARANTINED, "somebody's words") == (None, None)
    for state in (LaneState.ACTIVE, LaneState.DRAINING, LaneState.CLOSED):
        assert from_reason(state, "rebaseline") == (None, None), "only a lane that stands still has a cause"


def test_a_reason_that_would_be_taken_for_an_order_is_stored_with_its_cause_or_in_quotes() -> None:
    assert safe_reason(PAUSED, "rebaseline", PauseCause.OPERATOR, None) == "operator: rebaseline"
    assert safe_reason(PAUSED, "rebaseline", None, None) == '"rebaseline"'
    assert safe_reason(LaneState.QUARANTINED, "why", QuarantineCause.BROKEN, None) == "why"


@given(TEXTS | st.sampled_from([*(words_of(c) for c in PauseCause), *(words_of(c) for c in LaneCommand)]))
def test_no_text_of_a_person_is_an_order_to_the_older_release(text: str) -> None:
    stored = safe_reason(PAUSED, text, PauseCause.OPERATOR, None)
    assert from_reason(PAUSED, stored) == (PauseCause.OPERATOR, None)
    assert text in stored


@given(st.text(max_size=20) | st.just("not included within 60 s"), st.sampled_from(KillCause))
def test_noop_remembers_its_cause_whatever_the_text_says(why: str, cause: KillCause) -> None:
    terms = Doom(cause, why).terms
    assert doom_of(terms).cause is cause
    assert why in doom_of(terms).why
    older = {"why": terms["why"]}
    assert (doom_of(older).cause is KillCause.OVERDUE) <= (cause is KillCause.OVERDUE)
