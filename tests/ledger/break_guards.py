"""The guards of `broke`."""

from __future__ import annotations

from tests.ledger.guards import FENCE, Guard

BREAKS = [
    Guard("broke", FENCE, "", "stale_owner_counts_no_breaks"),
    Guard("broke", "if mark == ARGV[4] then return {'broke', count} end", "", "break_that_is_told_twice_counts_once"),
    Guard("broke", "count and now - at < tonumber(ARGV[6])", "false", "breaks_are_counted_through_a_take_over"),
    Guard("broke", " and now - at < tonumber(ARGV[6])", "", "breaks_long_ago_are_forgotten"),
]
