"""The simulator catches bugs that were put in on purpose. `make sim MUTANTS=1` hunts the slow ones too."""

from __future__ import annotations

import pytest

from tests.sim.hunt import hunt
from tests.sim.mutants import MUTANTS

QUICK = [
    "accepted_before_it_is_durable",
    "accepted_without_a_claim",
    "accepts_a_known_key",
    "append_twice",
    "breaks_when_its_lane_is_closed",
    "broadcast_before_write_ahead",
    "cancel_races_the_write_ahead",
    "cancelled_in_a_full_window_waits",
    "claim_of_a_closed_lane_never_moves",
    "claim_starts_another_life",
    "claim_without_comparing_payloads",
    "clock_set_back_stops_the_asking",
    "closed_with_unretired_records",
    "cursor_moved_is_tried_again",
    "death_after_collection",
    "ended_at_once_in_two_steps",
    "ended_at_once_without_a_home",
    "failed_while_the_bytes_can_land",
    "former_owner_vouches",
    "held_intent_signs_itself_again",
    "landed_is_forgotten",
    "late_copy_is_taken_for_a_stranger",
    "late_word_counts_for_the_resign",
    "lease_renewed_by_a_dead_loop",
    "lease_without_a_new_fence",
    "newest_first",
    "no_answer_is_a_refusal",
    "no_chain_check_at_a_take_over",
    "no_fence_in_take",
    "nonce_from_the_chain",
    "noop_waits_for_its_own_resign",
    "overtaken_by_the_head",
    "overtakes_the_innocent",
    "paused_lane_signs_first_attempts",
    "proof_from_two_nodes",
    "proof_out_of_thin_air",
    "recycle_after_send_error",
    "replay_without_comparing_payloads",
    "resign_followed_by_newer_ones",
    "resign_on_unknown_alone",
    "retention_from_the_claim",
    "retire_without_durability",
    "rolled_back_flights_are_not_tracked",
    "router_consulted_on_retry",
    "settle_not_idempotent",
    "settled_before_finality",
    "take_forgets_a_lost_reply",
    "unconfirmed_write_ahead_is_sent_by_the_next_owner",
    "wait_after_a_replay_that_wrote_nothing",
    "window_slots_freed_too_early",
    "worker_dies_with_its_lane",
]
"""Caught by their stories or within a hundred schedules: each has ten seconds."""


RARE = {"fence_by_epoch_alone": 243, "no_fence_in_write_ahead": 554}
"""Caught by few schedules; here is one. Another change may move it: `make sim MUTANTS=name` finds the next."""


@pytest.mark.parametrize("name", RARE)
def test_a_rare_seeded_bug_is_caught_by_its_schedule(name: str) -> None:
    catch = hunt(name, seeds=5, first=RARE[name] - 2)
    assert catch.caught, f"{name} ({MUTANTS[name].mistake}) survived {catch.seeds} schedules"


@pytest.mark.parametrize("name", QUICK)
def test_a_seeded_bug_is_caught_within_ten_seconds(name: str) -> None:
    catch = hunt(name, seeds=5_000, seconds=10.0)
    assert catch.caught, f"{name} ({MUTANTS[name].mistake}) survived {catch.seeds} schedules"


def test_there_are_more_than_twenty_seeded_bugs_and_each_says_what_it_breaks() -> None:
    assert len(MUTANTS) > 20
    assert len({mutant.mistake for mutant in MUTANTS.values()}) == len(MUTANTS)
    assert set(QUICK) | set(RARE) <= set(MUTANTS)
