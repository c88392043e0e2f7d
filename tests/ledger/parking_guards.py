"""The guards of the scripts that park lanes and bring them back, as `guards.py` has them for the others."""

from __future__ import annotations

from tests.ledger.guards import Guard

PARKED = "idle_lane_is_parked_and_nobody_serves_it"
BACK = "parked_lane_hands_out_nothing_until_it_is_registered_again"
AGAIN = "parking_again_answers_the_same_and_a_stale_owner_parks_nothing"
MATTERS = "lane_with_a_number_or_a_record_that_matters_is_not_parked"
FILLS = "lane_with_a_fill_or_a_backlog_is_not_parked"
LATE = "late_news_of_a_parked_lane_changes_nothing"
WORD = "operators_word_brings_a_parked_lane_back"
COUNTS = "parked_lane_counts_for_whoever_made_it_and_for_nobody_else"
OLD = "release_that_knows_no_parking_registers_the_lane_as_a_new_one"
LEFT = "lane_that_is_there_again_is_listed_whatever_is_left_of_a_deleted_one"
STAYS = "parked_address_stays_of_its_sort_and_can_be_deleted"

PARKING = [
    Guard("park", "if not lane[1] and lane[5]", "if lane[5]", AGAIN),
    Guard("park", "if not lane[1] and lane[5] == ARGV[1] and lane[6] == ARGV[2] then return parked() end", "", AGAIN),
    Guard("park", "if out then return out end", "", AGAIN),
    Guard("park", "expire(now)\nlocal used", "local used", PARKED),
    Guard("park", "redis.call('HLEN', KEYS[2]) + ", "", MATTERS),
    Guard("park", "redis.call('XLEN', KEYS[6]) + ", "", MATTERS),
    Guard("park", "redis.call('SCARD', KEYS[7])\n", "0\n", MATTERS),
    Guard("park", "redis.call('SCARD', KEYS[8])", "0", MATTERS),
    Guard("park", "redis.call('HLEN', KEYS[9])", "0", FILLS),
    Guard("park", "redis.call('ZCARD', KEYS[10])", "0", FILLS),
    Guard("park", "lane[1] ~= 'active' or ", "", "lane_that_an_operator_stopped_or_that_signs_is_not_parked"),
    Guard("park", "lane[2] ~= '1' or ", "", "lane_that_an_operator_stopped_or_that_signs_is_not_parked"),
    Guard(
        "park",
        "if left > 0 then return {'busy', digits(left)} end",
        "",
        "lane_that_was_used_a_while_ago_is_not_parked_yet",
    ),
    Guard("park", "tonumber(lane[3] or 0), ", "", "lane_that_was_used_a_while_ago_is_not_parked_yet"),
    Guard("park", "event and at(event[1]) or 0", "0", "last_event_tells_how_long_a_lane_is_idle"),
    Guard("park", "math.max(1, tonumber(ARGV[3]))", "tonumber(ARGV[3])", AGAIN),
    Guard("park", "redis.call('HDEL', KEYS[1], 'state', 'until')", "", BACK),
    Guard("park", "'token', '', ", "", PARKED),
    Guard("park", "redis.call('HINCRBY', KEYS[1], 'rev', 1)", "", LATE),
    Guard("park", "redis.call('DEL', KEYS[6])", "", BACK, 1),
    Guard("park", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", "replay_of_parking_writes"),
    Guard("register", "  if redis.call('HEXISTS', lane, 'state') == 1 then return end", "", OLD, 1),
    Guard(
        "register",
        "  if redis.call('HEXISTS', lane, 'state') == 1 then return end",
        "",
        "lane_that_an_operator_paused_stays_paused_when_it_is_registered_again",
    ),
    Guard("register", "unpark(KEYS[1], KEYS[2], schema)", "", BACK),
    Guard("register", "if lane[4] and (lane", "if lane[1] and (lane", STAYS),
    Guard("register", "'used', digits(clock())", "'used', '0'", "parked_lane_is_still_known"),
    Guard("reserve", "cursor, 'used', digits(clock()))", "cursor)", "last_number_tells_how_long_a_lane_is_idle"),
    Guard(
        "set_lane",
        "unpark(KEYS[1], KEYS[2], redis.call('HGET', KEYS[1], 'schema'))\n",
        "",
        "lane_that_was_stopped_while_it_was_parked_keeps_no_trace_of_it",
    ),
    Guard("set_lane", "stands[1] or stands[2] and 'active'", "stands[1]", WORD),
    Guard("publish", "if other and tonumber(other) > tonumber(ARGV[2]) then return 0 end", "", LATE),
    Guard("publish", "if ARGV[4] == 'parked' then", "if false then", PARKED),
    Guard("publish", "redis.call('HDEL', from, ARGV[1])\n", "", "readers_of_the_registry_read_who_was_parked_alone"),
    Guard("register", "'rev', digits(clock() * 1000)", "'rev', '0'", LEFT),
    Guard("admit_lane", "if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then return 1 end", "", COUNTS),
    Guard("admit_lane", " + redis.call('HEXISTS', KEYS[3], lane)", "", "parked_lane_is_never_let_go"),
]
