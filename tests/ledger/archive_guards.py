"""The guards around an archive: what waits for it, what may go, and what is written down when it could not wait."""

from __future__ import annotations

from tests.ledger.guards import REPLAY, Guard

_WAITS = "final_record_waits_for_the_archive_with_its_payload"
_LAGS = "archive_that_lags_too_far_behind_stops_nothing_and_what_went_is_named"
_LOST = "backlog_that_no_home_remembers_is_counted_as_lost"
_COUNT = "acknowledged_records_do_not_count_as_late"
_NONE_STAYS = "no_payload_stays_where_no_archive_is_waited_for"
_WRONG = "acknowledgement_of_a_live_record_or_another_life_counts_nothing"
_FILLED = "no_op_of_no_intent_that_landed_waits_for_the_archive_once"

ARCHIVES = [
    Guard("bury", " and (not waits or late > 0)", "", _WAITS),
    Guard("bury", "(not waits or late > 0)", "(not waits)", _LAGS),
    Guard("bury", "(not waits or late > 0)", "late > 0", "retire_again_changes_nothing"),
    Guard("bury", "local waits = lag and not record[3]", "local waits = lag", _COUNT),
    Guard("bury", "    if waits then redis.call('ZADD'", "    if false then redis.call('ZADD'", _LAGS),
    Guard("bury", "if waits then late = late - 1 end", "", _LAGS),
    Guard("bury", " - (redis.call('HGET', KEYS[2], 'arced') or 0)", "", _COUNT),
    Guard("bury", "redis.call('HINCRBY', KEYS[2], 'arced', -archived)", "", _COUNT),
    Guard("acknowledge", "redis.call('HINCRBY', KEYS[2], 'arced', 1)", "", _COUNT),
    Guard("bury", "if lag then -- what", "if false then -- what", _LOST),
    Guard("bury", "'(' .. digits(now - ARGV[2])", "'+inf'", _LAGS),
    Guard("bury", "if lost > 0 then", "if false then", _LOST),
    Guard("acknowledge", "if redis.call('ZREM', KEYS[1], life .. ' ' .. id) == 1 then", "if false then", _LAGS),
    Guard(
        "acknowledge",
        "(record[1] == 'done' or record[1] == 'failed' or record[1] == 'cancelled') and ",
        "",
        _WRONG,
    ),
    Guard("acknowledge", "record[2] == life", "true", _WRONG),
    Guard("acknowledge", "and not record[3]", "", "acknowledged_record_is_retired_and_asked_about_no_more"),
    Guard("acknowledge", "redis.call('HDEL', KEYS[i], 'p')", "", "acknowledged_record_keeps_no_payload"),
    Guard("archive", "if redis.call('HEXISTS', KEYS[1], 'spec') == 0 then", "if false then",
          "keyless_lane_with_a_backlog_is_not_deleted"),
    Guard("archive", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", REPLAY),
    Guard("archive", "if ARGV[1] ~= '' then", "if true then", "archive_that_is_taken_away_lets_everything_go"),
    Guard("archive", "redis.call('DEL', KEYS[2])", "", "archive_that_is_taken_away_lets_everything_go"),
    Guard("settle", "record[3], archive)", "record[3], false)", _WAITS),
    Guard("settle", "if not archive and before == 'held' then", "if false then", _NONE_STAYS),
    Guard("cancel", "if not archive then redis.call('HDEL', KEYS[6], 'p') end", "", _NONE_STAYS),
    Guard(
        "cancel",
        "local archive = redis.call('HEXISTS', KEYS[1], 'archive') == 1",
        "local archive = false",
        "cancelled_record_waits_with_its_payload_wherever_it_stood",
    ),
    Guard("fill", "if lane[4] and redis.call('HEXISTS', KEYS[2], ARGV[at]) == 1 then", "if lane[4] then", _FILLED),
    Guard("fill", "if lane[4] and redis", "if redis",
          "no_op_of_no_intent_is_forgotten_where_no_archive_is_waited_for"),
    Guard("forget_lane", " + redis.call('ZCARD', KEYS[10])", "", "keyless_lane_with_a_backlog_is_not_deleted"),
]  # fmt: skip
