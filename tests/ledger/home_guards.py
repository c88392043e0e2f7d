"""The guards of an end that goes home in the step that settles it."""

from __future__ import annotations

from tests.ledger.guards import Guard

_HOME = "end_with_its_final_record_goes_home_in_the_same_step"
_LATER = "end_without_its_final_record_is_retired_later"
_FULL = "full_server_lets_an_end_go_home_at_once"
_EXPIRE = "homes_and_tombstones_of_an_end_at_once_expire"

HOMES_AT_ONCE = [
    Guard("settle", "if final ~= '' and not archive then", "if not archive then", _LATER),
    Guard("settle", "if final ~= '' and not archive then", "if false then", _FULL),
    Guard("settle", " and not archive then", " then", "end_that_an_archive_waits_for_stays_in_its_lane"),
    Guard("settle", "local home = many + 2 * i - 6", "local home = many + i", _HOME),
    Guard("settle", "keep_home(KEYS[home]", "tostring(KEYS[home]", _HOME),
    Guard("settle", "final .. now .. '}'", "final .. '0}'", _HOME),
    Guard("settle", "tombstone(KEYS[i], life, ARGV[11])", "", "end_at_once_is_gone_when_it_is_settled_again"),
    Guard("settle", "redis.call('HSET', record, 's', 'retired', 'l', life)", "", "end_at_once_leaves_a_tombstone"),
    Guard("settle", "if living ~= life then", "if false then", "end_at_once_never_overwrites_a_new_life"),
    Guard("settle", "event(KEYS[3], id, status, now, hash, err)\n      replies", "replies", _HOME),
    Guard("settle", "redis.call('ZREM', open, id)", "", "end_at_once_leaves_no_open_claim"),
    Guard("settle", ", 'PX', keep_ms)", ")", _EXPIRE),
    Guard("settle", "redis.call('PEXPIRE', record, ms)", "", _EXPIRE),
    Guard("settle", "ended[#ended + 1] = id", "", "end_at_once_wakes_its_callers_and_gives_room_back"),
    Guard("settle", "give_back(KEYS[1], shares)", "", "end_at_once_wakes_its_callers_and_gives_room_back"),
    Guard("settle", "redis.call('HDEL', KEYS[1], 'settling')", "", _FULL),
    Guard(
        "settle", "or not proven(KEYS[i], name, status, deaths, record[5])", "", "end_at_once_keeps_the_proofs_of_death"
    ),
]
