"""The guards of the scripts that hand out numbers, as `guards.py` has them for the others."""

from __future__ import annotations

from tests.ledger.guards import Guard

RECLAIM = "numbers_a_reorg_took_back_are_reclaimed_on_an_operators_word"
REPLAY = "replay_of_every_reservation_writes"
FULL = "full_server_lets_numbers_be_taken_back"
STOPPED = "if why then return why end"
TOUCH = "redis.call('HINCRBY', KEYS[1], 'touch', 1)"
UNKNOWN = "if redis.call('HEXISTS', KEYS[1], 'spec') == 0 then return"
ORDER = "if #a ~= #b then return #a < #b end"

HANDED_OUT = [
    ("if not lane[1] then return {'unknown'} end", "", "lane_that_signs_hands_out_no_numbers"),
    ("if lane[2] ~= '1' then return {'signing'} end", "", "lane_that_signs_hands_out_no_numbers"),
    (
        "if lane[3] ~= found then return {'rolled_back', lane[3], found} end",
        "",
        "nothing_is_handed_out_on_a_server_with_another_history",
    ),
    ("if lane[1] ~= 'active' and lane[1] ~= 'paused' then", "if false then", "stopped_lane_hands_out_nothing"),
    ("lane[1] ~= 'active' and ", "", "reservations_are_distinct_and_consecutive_from_the_seed"),
    (" and lane[1] ~= 'paused' then", " then", "stopped_lane_hands_out_nothing"),
    (STOPPED, "", "stopped_lane_hands_out_nothing"),
    ("if not floor or below(floor, chain) then", "if true then", "stale_count_of_the_chain_never_lowers_the_counter"),
    ("not floor or ", "floor and ", "number_the_chain_used_is_not_reused"),
    ("if below(cursor, chain) then", "if true then", "stale_count_of_the_chain_never_lowers_the_counter"),
    ("if below(cursor, chain) then", "if false then", "higher_count_of_the_chain_raises_the_counter_and_is_told"),
    ("lane[1] or '', chain", "'', chain", "higher_count_of_the_chain_raises_the_counter_and_is_told"),
    ("lane[1] or seed", "seed", "reservations_are_distinct_and_consecutive_from_the_seed"),
    (" or not spent(nonce, floor, lane[3])", " or true", "number_the_chain_used_is_not_reused"),
    ("  if not nonce then\n", "  if true then\n", "recycled_numbers_are_reused_lowest_first"),
    (
        "redis.call('HINCRBY', KEYS[1], 'cursor', 1)",
        "redis.call('HSET', KEYS[1], 'cursor', tonumber(cursor) + 1)",
        "reservations_are_distinct_and_consecutive_from_the_seed",
    ),
    ("expire(now)\nif has_all", "if has_all", "reserve_takes_back_what_expired_by_itself"),
    (ORDER, "", "numbers_of_other_lengths_raise_the_counter"),
]

CAPPED = "owner_has_only_so_many_unsent_numbers_and_others_go_on"
IN_LINE = "place_in_line_counts_once_however_often_it_asks"
HELD_LANES = "caller_brings_only_so_many_lanes_into_being"
LATE_LANES = "lane_that_was_admitted_and_never_came_to_be_is_let_go"
DELETED = "lane_that_signs_or_is_closed_is_never_deleted"
RECORDS = "lane_with_a_record_is_not_deleted"
RESERVED = "lane_with_a_reserved_number_is_not_deleted"
SENT_FINAL = "lane_whose_sent_numbers_are_final_is_deleted"
CAPS = [
    Guard("reserve", "if has_all(ARGV[1], ARGV[5]) then return {'many'} end", "", CAPPED),
    Guard("turn", "if has_all(ARGV[1], ARGV[5]) then return {'many'} end", "", IN_LINE),
    Guard("reserve", "own(ARGV[1])\n", "", CAPPED),
    Guard("turn", "own(ARGV[1])\n", "", IN_LINE),
    Guard("turn", " or redis.call('SISMEMBER', KEYS[6], token) == 1", "", IN_LINE),
    Guard("reserve", "if not KEYS[6] or ", "if ", CAPPED),
    Guard("reserve", "if not KEYS[6] then return end", "", CAPPED),
    Guard("reserve", "if not entry or (entry.state", "if (entry.state", CAPPED),
    Guard("reserve", "(entry.state ~= 'reserved' and entry.state ~= 'waiting')", "true", CAPPED),
    Guard("turn", " and entry.state ~= 'waiting')", ")", IN_LINE),
    Guard("reserve", "redis.call('SREM', KEYS[6], known)", "", CAPPED),
    Guard("admit_lane", "if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 1 end", "", HELD_LANES),
    Guard("admit_lane", "  if redis.call('ZCARD', KEYS[1]) >= most then return 0 end", "", HELD_LANES),
    Guard("admit_lane", "redis.call('HEXISTS', KEYS[2], lane) + ", "", LATE_LANES),
    Guard("admit_lane", "digits(now - ARGV[3])", "'+inf'", LATE_LANES),
    Guard(
        "forget_lane",
        "if not lane[1] then return {'unknown'} end",
        "",
        "keyless_lane_that_nothing_depends_on_is_deleted_and_may_come_again",
    ),
    Guard("forget_lane", "if entry.state == 'sent' then", "if false then", RECORDS),
    Guard("forget_lane", "if not spent(entry.nonce, nil, lane[3]) then", "if true then", SENT_FINAL),
    Guard("forget_lane", "elseif entry.state ~= 'over' and", "elseif", RESERVED),
    Guard("forget_lane", "tonumber(entry.till) > now", "false", RESERVED),
    Guard("forget_lane", "redis.call('XLEN', KEYS[6]) + ", "", RECORDS),
    Guard("forget_lane", " + redis.call('SCARD', KEYS[8])", "", RECORDS),
    Guard("forget_lane", "why ~= '' or ", "", RESERVED),
    Guard("forget_lane", " or lane[2] ~= '1'", "", DELETED),
    Guard("forget_lane", " or lane[4] == 'closed'", "", DELETED),
]

NUMBERS = [
    *CAPS,
    *(Guard("reserve", *rest) for rest in HANDED_OUT),
    Guard("reserve", "if entry then", "if false then", "same_token_gets_the_same_number_again"),
    Guard("reserve", TOUCH, "", REPLAY),
    Guard("reserve", "if entry.state == 'reserved' then", "if true then", "late_duplicate_recycle_changes_nothing"),
    Guard(
        "reserve",
        "if entry.state == 'sent' then return {'sent', entry.nonce} end",
        "",
        "number_that_may_have_been_sent_is_never_recycled",
    ),
    Guard(
        "reserve",
        "if ARGV[4] == '' and not redis.call('HGET', KEYS[1], 'cursor') then return {'cold'} end",
        "",
        "cold_lane_asks_for_the_chains_count_first",
    ),
    # turns
    Guard("turn", STOPPED, "", "stopped_lane_hands_out_nothing"),
    Guard("turn", TOUCH, "", REPLAY),
    Guard(
        "turn",
        "if lane[3] ~= found then return {'rolled_back', lane[3], found} end",
        "",
        "nothing_is_handed_out_on_a_server_with_another_history",
    ),
    Guard(
        "turn",
        "if ARGV[4] == '' and not redis.call('HGET', KEYS[1], 'cursor') then return {'cold'} end",
        "",
        "cold_lane_asks_for_the_chains_count_first",
    ),
    Guard(
        "turn",
        "if entry and entry.state ~= 'waiting' then",
        "if false then",
        "turns_are_granted_one_at_a_time_in_the_order_asked",
    ),
    Guard("turn", " and turn[1] == ARGV[1] then", " then", "reservation_that_is_no_turn_is_not_unlocked"),
    Guard(
        "turn",
        "if entry.state == 'sent' then return {'sent', entry.nonce} end",
        "",
        "turn_that_ends_after_a_send_keeps_its_number",
    ),
    Guard("turn", "expire(now)\nif has_all", "if has_all", "holder_whose_time_is_over_is_fenced_off"),
    Guard(
        "turn",
        "if not redis.call('ZSCORE', KEYS[5], ARGV[1]) then",
        "if true then",
        "turns_are_granted_one_at_a_time_in_the_order_asked",
    ),
    Guard(
        "turn",
        "if redis.call('HEXISTS', KEYS[1], 'turn') == 1 then before = before + 1 end",
        "",
        "turns_are_granted_one_at_a_time_in_the_order_asked",
    ),
    Guard("turn", "if before > 0 then", "if false then", "turns_are_granted_one_at_a_time_in_the_order_asked"),
    Guard(
        "turn",
        "if lane[2] and tonumber(lane[2]) <= now then",
        "if false then",
        "turn_of_a_sender_that_never_unlocks_ends",
    ),
    Guard(
        "turn",
        "redis.call('HINCRBY', KEYS[1], 'turn_fence', 1)",
        "redis.call('HSET', KEYS[1], 'turn_fence', 1)",
        "holder_whose_time_is_over_is_fenced_off",
    ),
    # giving back
    Guard("recycle", f"{UNKNOWN} {{'unknown'}} end", "", "lane_that_signs_hands_out_no_numbers"),
    Guard("recycle", TOUCH, "", REPLAY),
    Guard("recycle", "redis.call('HDEL', KEYS[1], 'settling')", "", FULL),
    Guard("recycle", "if not entry or ", "if ", "late_duplicate_recycle_changes_nothing"),
    Guard("recycle", " or entry.state == 'over' then", " then", "late_duplicate_recycle_changes_nothing"),
    Guard("recycle", "if ARGV[2] ~= 'turn' then return {'over'} end", "", "place_in_line_can_be_left"),
    Guard("recycle", "if entry.state == 'waiting' then", "if false then", "place_in_line_can_be_left"),
    Guard(
        "recycle",
        "if ARGV[2] == 'turn' and not mine then return {'over'} end",
        "",
        "reservation_that_is_no_turn_is_not_unlocked",
    ),
    Guard(
        "recycle",
        "if entry.state == 'sent' then",
        "if false then",
        "number_that_may_have_been_sent_is_never_recycled",
    ),
    Guard(
        "recycle",
        "if ARGV[2] == 'turn' then redis.call('HDEL', KEYS[1], 'turn', 'turn_until') end",
        "",
        "turn_that_ends_after_a_send_keeps_its_number",
    ),
    Guard(
        "recycle",
        "if ARGV[2] == 'turn' then redis.call",
        "if true then redis.call",
        "turn_that_ends_after_a_send_keeps_its_number",
    ),
    Guard(
        "recycle",
        "if redis.call('HGET', KEYS[1], 'turn') == token then",
        "if false then",
        "turns_are_granted_one_at_a_time_in_the_order_asked",
    ),
    Guard(
        "recycle",
        "if redis.call('HGET', KEYS[1], 'turn') == token then",
        "if true then",
        "recycle_of_one_leaves_the_turn_of_another",
    ),
    Guard(
        "recycle", "if not spent(nonce, lane[1], lane[2]) then", "if true then", "number_the_chain_used_is_not_reused"
    ),
    Guard("recycle", " or (landed and not below(landed, nonce))", "", "number_below_what_landed_is_not_reused"),
    Guard("recycle", "padded(nonce))", "nonce)", "numbers_of_other_lengths_are_reused_in_their_order"),
    # expiry
    Guard("expire", f"{UNKNOWN} 'unknown' end", "", "lane_that_signs_hands_out_no_numbers"),
    Guard("expire", "redis.call('HDEL', KEYS[1], 'settling')", "", FULL),
    Guard("expire", "'-inf', digits(now)", "'-inf', '+inf'", "unused_reservation_expires_and_its_number_is_reused"),
    Guard(
        "expire", "if entry.state == 'reserved' then", "if true then", "number_that_may_have_been_sent_never_expires"
    ),
    Guard(
        "expire",
        "elseif entry.state == 'sent' and not spent(entry.nonce, nil, lane[1]) then",
        "elseif false then",
        "sent_number_is_remembered_until_it_is_final",
    ),
    Guard("expire", " and not spent(entry.nonce, nil, lane[1])", "", "sent_number_is_remembered_until_it_is_final"),
    Guard(
        "expire",
        "over(token, entry, now)\n      moved",
        "redis.call('HDEL', KEYS[2], token)\n      moved",
        "expired_token_is_told_from_a_new_one",
    ),
    # sending
    Guard(
        "append",
        "if lane[3] ~= '1' then return token ~= '' and 'unreserved' end",
        "",
        "append_again_answers_the_same_entry",
    ),
    Guard(
        "append",
        "return token ~= '' and 'unreserved' end",
        "return nil end",
        "reservation_means_nothing_to_a_lane_that_signs",
    ),
    Guard(
        "append",
        "if not entry or entry.nonce ~= nonce then return 'unreserved' end",
        "if not entry then return 'unreserved' end",
        "bytes_without_their_own_reservation_are_refused",
    ),
    Guard("append", "if not entry or ", "if entry and ", "bytes_without_their_own_reservation_are_refused"),
    Guard(
        "append",
        "if entry.state ~= 'reserved' and entry.state ~= 'sent' then return 'unreserved' end",
        "",
        "unused_reservation_expires_and_its_number_is_reused",
    ),
    Guard("append", " and entry.state ~= 'sent' then", " then", "replacement_by_the_owner_shares_its_number"),
    Guard(
        "append",
        "return spent(nonce, entry.state == 'reserved' and lane[5], lane[6]) and 'used'",
        "return nil",
        "bytes_at_a_number_the_chain_used_are_refused",
    ),
    Guard("append", " or (landed and not below(landed, nonce))", "", "bytes_at_a_number_the_chain_used_are_refused"),
    Guard("append", "elseif taken(", "elseif false and taken(", "bytes_without_their_own_reservation_are_refused"),
    Guard(
        "append",
        "if ARGV[at + 7] ~= '' then",
        "if false then",
        "bytes_own_their_number_from_the_step_that_accepts_them",
    ),
    Guard("append", "entry.sent .. ' '", "' '", "replacement_by_the_owner_shares_its_number"),
    # write-ahead
    Guard(
        "record_attempts",
        "if (write.purpose == 'given') ~= (lane[5] == '1') then",
        "if false then",
        "keyless_lane_signs_nothing_and_others_are_given_nothing",
    ),
    Guard(
        "record_attempts",
        "if write.purpose == 'first' or write.purpose == 'given' then firsts",
        "if write.purpose == 'first' then firsts",
        "given_bytes_are_a_prefix_of_the_queue",
    ),
    Guard(
        "record_attempts",
        " and lane[5] ~= '1' then --",
        " then --",
        "given_bytes_are_written_ahead_whatever_their_number",
    ),
    Guard(
        "record_attempts",
        "if not outbids and write.purpose ~= 'given' then",
        "if not outbids then",
        "given_bytes_are_written_ahead_whatever_their_number",
    ),
    Guard(
        "record_attempts",
        "if write.purpose == 'first' or write.purpose == 'given' then opened",
        "if write.purpose == 'first' then opened",
        "given_bytes_are_written_ahead_whatever_their_number",
    ),
    Guard(
        "record_attempts",
        "local kept = lane[5] ~= '1' and {'cursor', ARGV[4]} or {}",
        "local kept = {'cursor', ARGV[4]}",
        "given_bytes_are_written_ahead_whatever_their_number",
    ),
    # the rest
    Guard(
        "register",
        "if lane[4] and (lane[3] or '') ~= ARGV[4] then",
        "if false then",
        "address_is_of_one_sort_for_ever",
    ),
    Guard("register", "if ARGV[4] == '1' then", "if true then", "address_is_of_one_sort_for_ever"),
    Guard("checked", f"{UNKNOWN} {{'unknown'}} end", "", "lane_that_signs_hands_out_no_numbers"),
    Guard("checked", "redis.call('HDEL', KEYS[1], 'checked')", "", FULL),
    # an operator's word
    Guard("reclaim", "if out then return out end", "", "stale_owner_cannot_reclaim_numbers"),
    Guard("reclaim", "redis.call('HDEL', KEYS[1], 'settling')", "", FULL),
    Guard("reclaim", "if lane[1] and below(nonce, lane[1]) and ", "if ", RECLAIM),
    Guard("reclaim", "not live[nonce] and ", "", RECLAIM),
    Guard("reclaim", " and not spent(nonce, ARGV[3], lane[2]) then", " then", RECLAIM),
    Guard("reclaim", "state == 'reserved' or ", "", RECLAIM),
    Guard("reclaim", " or state == 'sent' then", " then", RECLAIM),
    Guard(
        "append",
        "entry.state == 'reserved' and lane[5]",
        "lane[5]",
        "what_was_sent_is_replaced_until_it_is_final",
    ),
]
