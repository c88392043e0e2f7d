"""The simulator catches bugs that were put in on purpose. `make sim MUTANTS=1` hunts the slow ones too."""

from __future__ import annotations

import pytest

from tests.sim.hunt import hunt
from tests.sim.mutants import MUTANTS

QUICK = [
    "accepted_before_it_is_durable",
    "append_twice",
    "broadcast_before_write_ahead",
    "cancel_races_the_write_ahead",
    "cancelled_in_a_full_window_waits",
    "claim_starts_another_life",
    "death_after_collection",
    "failed_while_the_bytes_can_land",
    "landed_is_forgotten",
    "lease_renewed_by_a_dead_loop",
    "newest_first",
    "no_fence_in_take",
    "no_tombstone",
    "nonce_from_the_chain",
    "overtakes_the_innocent",
    "proof_from_two_nodes",
    "proof_out_of_thin_air",
    "recycle_after_send_error",
    "resign_followed_by_newer_ones",
    "retention_from_the_claim",
    "retire_without_durability",
    "router_consulted_on_retry",
    "take_forgets_a_lost_reply",
    "window_slots_freed_too_early",
    "worker_dies_with_its_lane",
]
"""Caught within a few dozen schedules: each has ten seconds."""


@pytest.mark.parametrize("name", QUICK)
def test_a_seeded_bug_is_caught_within_ten_seconds(name: str) -> None:
    catch = hunt(name, seeds=5_000, seconds=10.0)
    assert catch.caught, f"{name} ({MUTANTS[name].mistake}) survived {catch.seeds} schedules"


def test_there_are_more_than_twenty_seeded_bugs_and_each_says_what_it_breaks() -> None:
    assert len(MUTANTS) > 20
    assert len({mutant.mistake for mutant in MUTANTS.values()}) == len(MUTANTS)
    assert set(QUICK) <= set(MUTANTS)
