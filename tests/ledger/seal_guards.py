"""The guards of setting aside and resealing, as `guards.py` has them for the others."""

from __future__ import annotations

from tests.ledger.guards import FENCE, Guard

UNSIGNED = "what_is_set_aside_gets_no_attempt_and_no_operators_word"
WHOLE = "what_is_set_aside_is_held_whole_and_the_lane_goes_on"
QUEUED_AGAIN = "resealed_intent_is_queued_again_behind_the_others"
FULL = "full_server_lets_a_seal_be_dealt_with"

SEALS = [
    Guard("set_aside", FENCE, "", "stale_owner_cannot_set_aside"),
    Guard("set_aside", "record[2] == ARGV[4] --", "true --", "copy_of_an_entry_is_taken_out_alone"),
    Guard("set_aside", "if own and record[1] == 'held' then return {'held'} end", "", WHOLE),
    Guard(
        "set_aside",
        "if own and record[1] ~= 'queued' then return {'refused', record[1]} end",
        "",
        "only_what_is_queued_is_set_aside",
    ),
    Guard("set_aside", "not own or ", "", "copy_of_an_entry_is_taken_out_alone"),
    Guard("set_aside", " or not entry then", " then", "entry_deleted_by_hand_is_not_set_aside"),
    Guard(
        "set_aside",
        "redis.call('XACK', KEYS[2], 'lane', ARGV[4])",
        "",
        "what_an_older_release_read_through_the_group_is_acknowledged",
        1,
    ),
    Guard("set_aside", "redis.call('XDEL', KEYS[2], ARGV[4])", "", WHOLE),
    Guard("set_aside", "redis.call('SADD', KEYS[4], ARGV[3])", "", "lane_with_something_set_aside_is_not_closed"),
    Guard("reseal", "record[1] == 'retired' or ", "", "reseal_script_finds_only_the_life_it_was_read_with"),
    Guard("reseal", " or record[2] ~= ARGV[2] then", " then", "reseal_of_another_life_changes_nothing"),
    Guard("reseal", "record[1] ~= 'held' or ", "", "only_what_is_held_for_its_seal_is_resealed"),
    Guard(
        "reseal",
        " or string.sub(record[3], 1, #ARGV[4]) ~= ARGV[4] then",
        " then",
        "only_what_is_held_for_its_seal_is_resealed",
    ),
    Guard("reseal", "if record[6] then", "if true then", "resealed_intent_that_was_signed_is_in_flight_again"),
    Guard("reseal", "redis.call('HDEL', KEYS[5], 'p')", "", "cancel_of_what_was_resealed_and_signed_asks_its_owner"),
    Guard("reseal", "redis.call('SREM', KEYS[4], ARGV[1])", "", "resealed_intent_counts_as_queued"),
    Guard("reseal", "redis.call('HDEL', KEYS[5], 'h')", "", QUEUED_AGAIN),
    Guard("reseal", "redis.call('HSET', KEYS[1], 'last', sid)", "", "resealed_intent_counts_as_queued"),
    Guard(
        "reseal", "redis.call('HINCRBY', KEYS[1], 'asks', 1)", "", "resealed_intent_that_was_signed_is_in_flight_again"
    ),
    Guard("reseal", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", "replay_of_a_reseal_writes"),
    Guard("reseal", "redis.call('HDEL', KEYS[1], 'settling')", "", FULL),
    Guard("resolve", "if record[3] then return {'refused', 'unsigned'} end", "", UNSIGNED),
    Guard(
        "cancel",
        " or (record[1] == 'held' and record[5])",
        "",
        "cancel_of_what_was_set_aside_ends_it_at_once",
    ),
    Guard(
        "set_lane",
        "if left == 0 then left = redis.call('SCARD', KEYS[3]) end",
        "",
        "lane_with_something_set_aside_is_not_closed",
    ),
]
