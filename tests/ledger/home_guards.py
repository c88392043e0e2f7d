"""The guards of an end that goes home in the step that settles it."""

from __future__ import annotations

from tests.ledger.guards import Guard

_HOME = "end_with_its_final_record_goes_home_in_the_same_step"
_LATER = "end_without_its_final_record_is_retired_later"
_FULL = "full_server_lets_an_end_go_home_at_once"
_EXPIRE = "homes_and_tombstones_of_an_end_at_once_expire"

HOMES_AT_ONCE = [
    Guard("settle", "if head ~= '' and not archive then", "if not archive then", _LATER),
    Guard("settle", "if head ~= '' and not archive then", "if false then", _FULL),
    Guard("settle", " and not archive then", " then", "end_that_an_archive_waits_for_stays_in_its_lane"),
    Guard("settle", "local home = many + 2 * i - 6", "local home = many + i", _HOME),
    Guard("settle", "keep_home(KEYS[home]", "tostring(KEYS[home]", _HOME),
    Guard("settle", "today .. '}'", "'0}'", _HOME),
    Guard("settle", "tombstone(KEYS[i], life, ARGV[11])", "", "end_at_once_is_gone_when_it_is_settled_again", 1),
    Guard(
        "settle",
        "redis.call('HSET', record, 's', 'retired', 'l', life)",
        "",
        "end_in_a_lane_of_schema_1_leaves_a_tombstone",
        1,
    ),
    Guard(
        "settle", "redis.call('DEL', unpack(over,", "redis.call('TIME') -- ", "late_append_after_an_end_at_once_is_told"
    ),
    Guard("settle", " or over[KEYS[i]]", "", "end_at_once_is_gone_when_it_is_settled_again"),
    Guard("append", " or not record[1] and home and ended(home, life)", "", "late_append_after_an_end_at_once_is_told"),
    Guard("append", "living == life and ", "", "late_append_after_an_end_at_once_is_told"),
    Guard("append", " and final ~= ''", "", "append_again_answers_the_same_entry"),
    Guard("settle", "kept == 'kept' and ", "", "end_whose_key_lives_again_leaves_a_tombstone"),
    Guard("settle", " and tonumber(lane[4]) >= 2", "", "end_in_a_lane_of_schema_1_leaves_a_tombstone", 1),
    Guard("settle", "ARGV[13] == '1' and ", "", "end_whose_home_is_kept_for_short_leaves_a_tombstone"),
    Guard(
        "settle",
        "if string.sub(home, from + 1, from + #life + 1) ~= life .. ' ' then",
        "if false then",
        "end_at_once_never_overwrites_a_new_life",
    ),
    Guard("settle", "event(id, status, hash, err)\n      replies", "replies", _HOME),
    Guard("settle", "redis.call('ZREM', open, id)", "", "end_at_once_leaves_no_open_claim"),
    Guard("settle", ", 'PX', keep_ms)", ")", _EXPIRE),
    Guard("settle", "redis.call('PEXPIRE', record, ms)", "", _EXPIRE, 1),
    Guard("settle", "ended[#ended + 1] = id", "", "end_at_once_wakes_its_callers_and_gives_room_back"),
    Guard("settle", "give_back(KEYS[1], shares)", "", "end_at_once_wakes_its_callers_and_gives_room_back"),
    Guard("settle", "redis.call('HDEL', KEYS[1], 'settling')", "", _FULL),
    Guard(
        "settle", "or not proven(KEYS[i], name, status, deaths, record[5])", "", "end_at_once_keeps_the_proofs_of_death"
    ),
]
