"""Where a lane writes: what this owner took, signed and gave up, and what of a moved cursor is its own doing."""

from __future__ import annotations

from tests.core.test_lane_plan import attempt, lane
from txmanager.core.write_head import WriteHead


def test_a_lane_without_a_baseline_starts_at_nought() -> None:
    assert WriteHead.of(lane(cursor=None)).cursor == 0


def test_what_was_taken_only_moves_forward_and_what_was_signed_is_remembered() -> None:
    head = WriteHead(5, "1-4", "1-9")
    head.took("1-7")
    assert head.last_id == "1-9"
    head.took("1-12")
    assert head.last_id == "1-12"
    head.signed("1-11")
    head.moved(6)
    assert (head.signed_upto, head.cursor) == ("1-11", 6)
    head.signed("1-13")
    assert head.last_id == "1-13", "what a wake-up brought was not taken before"


def test_a_ledger_without_a_cursor_is_not_followed() -> None:
    assert WriteHead(5, "1-4", "1-9").follow(lane(cursor=None)) is False


def test_only_a_cursor_that_went_forward_is_followed() -> None:
    head = WriteHead(5, "1-4", "1-9")
    head.gave_up({attempt(4).name: "1-5", attempt(2).name: "1-3"})
    assert head.follow(lane(cursor=5, signed_upto="1-3")) is True
    assert head.signed_upto == "1-4", "it stands where it stood"
    assert head.follow(lane(cursor=3, signed_upto="1-3")) is False
    assert head.cursor == 5
