"""The guards of what wake-ups carry."""

from __future__ import annotations

from tests.ledger.guards import Guard

_TRAVELS = "lone_entry_and_a_few_ends_travel_with_their_wake_ups"
_ALONE = "wake_up_brings_no_entry_with_another_unsigned_before_it"

HINTS = [
    Guard("settle", "hash ~= '' and many", "many", "end_that_no_chain_shows_is_read_and_never_told"),
    Guard("settle", "many <= 4 and ", "", "many_ends_travel_as_ids_alone"),
    Guard("settle", " and #final <= 2048", "", "large_end_is_read_and_not_told"),
    Guard("settle", "if hash ~= '' and many <= 4", "if false and many <= 4", _TRAVELS),
    Guard("append", "many > 1 or ", "", _ALONE),
    Guard("append", " or lane[10] ~= lane[11]", "", _ALONE),
    Guard(
        "append",
        " or tonumber(lane[7]) < 2",
        "",
        "lane_of_the_first_schema_says_only_what_release_0_1_0_knows",
    ),
    Guard("append", " or lane[3] == '1'", "", "keyless_lane_brings_no_entry"),
    Guard(
        "append",
        "if #ARGV[at + 5] + #ARGV[at + 6] > 4096 then",
        "if false then",
        "large_entry_is_taken_and_not_brought",
    ),
    Guard(
        "record_attempts",
        "if heard and redis.sha1hex(table.concat(oldest[1][2], '\\n')) ~= heard then",
        "if false then",
        "entry_that_a_wake_up_changed_is_not_written_ahead",
    ),
]
