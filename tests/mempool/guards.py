"""Every guard of the mempool's scripts, what replaces it when it is taken out, and the promise that must then break.

A guard of a shared piece is taken out of every script that includes it.
"""

from __future__ import annotations

from tests.ledger.guards import Guard


def _if(piece: str, condition: str, promise: str, without: str = "false") -> Guard:
    return Guard(piece, f"if {condition} then", f"if {without} then", promise)


BOOK = [
    _if("_mempool", "C.born == ''", "new_store_is_quiet_for_a_while"),
    _if("_mempool", "low < 1e15", "nonces_beyond_two_to_the_53_are_exact", "true"),
    _if("_mempool", "s and s.gone", "idle_sender_is_forgotten_when_its_count_is_old"),
    _if("_mempool", "t and t.gone", "end_removes_what_landed_and_tells_why_for_ten_minutes"),
    _if("_mempool", "redis.call('ZCARD', KEYS[7]) > 0", "head_left_behind_rings"),
    _if("_mempool", "#words > 0", "whoever_waits_is_woken"),
    _if("_mempool", "state == 'sent' or state == 'landed'", "whoever_waits_is_woken"),
    _if("_mempool", "state == 'sent' or state == 'landed'", "only_a_decision_wakes_who_waits", "true"),
    Guard(
        "_mempool",
        "return s.count < s.pending and s.pending or s.count",
        "return s.count",
        "pending_of_the_node_moves_the_base_up_and_down",
    ),
    Guard(
        "_mempool",
        "  if gapped then redis.call('ZADD', KEYS[12], digits(t.moved + L.idle_ms), t.hash) end\n",
        "",
        "gapped_ones_expire_and_pending_ones_do_not",
    ),
    Guard(
        "_mempool",
        "  if gapped then redis.call('ZADD', KEYS[12]",
        "  if true then redis.call('ZADD', KEYS[12]",
        "gapped_ones_expire_and_pending_ones_do_not",
    ),
    Guard(
        "_mempool",
        "  redis.call('ZREM', KEYS[12], t.hash)\n  if t.state",
        "  if t.state",
        "landed_ones_do_not_expire",
    ),
    Guard("_mempool", "  t.moved = now\n  rank", "  rank", "time_of_a_gap_counts_from_when_it_became_one"),
    _if("_mempool", "not due or tonumber(due) > at", "retry_waits_its_time_and_may_be_replaced"),
    Guard("_mempool", "not due or tonumber(due) > at", "true", "sent_bytes_due_first_set_the_time"),
    Guard("_mempool", "  if s.run < floor then\n", "  if false then\n", "count_that_jumps_over_a_gap_closes_it"),
    Guard(
        "_mempool",
        "      if nonce >= floor then break end\n",
        "",
        "pending_of_the_node_moves_the_base_up_and_down",
    ),
    Guard(
        "_mempool",
        "      if t.gapped == '1' then set_gapped(t, false) end\n    end\n    s.run = floor",
        "    end\n    s.run = floor",
        "pending_of_the_node_moves_the_base_up_and_down",
    ),
    Guard(
        "_mempool",
        "    if t.gapped == '1' then set_gapped(t, false) end\n    s.run = later",
        "    s.run = later",
        "missing_nonce_closes_the_gap",
    ),
    Guard(
        "_mempool",
        "if t and (t.state == 'sent' or t.state == 'landed') then",
        "if t and t.state == 'landed' then",
        "nonces_give_the_order_not_arrival",
    ),
    Guard(
        "_mempool",
        "elseif not t and s.next < floor then",
        "elseif false then",
        "node_that_has_lower_nonces_lets_ours_go",
    ),
    Guard(
        "_mempool",
        "if t.state == 'waiting' and (t.gapped == '1') ~= gapped then",
        "if (t.gapped == '1') ~= gapped then",
        "end_of_a_sent_one_reopens_its_nonce",
    ),
    Guard(
        "_mempool",
        "if t.state == 'waiting' and (t.gapped == '1') ~= gapped then",
        "if false then",
        "successors_of_a_purged_one_become_gapped",
    ),
    _if("_mempool", "L.order ~= 'nonce'", "arrival_order_sends_gaps_in_the_order_they_came"),
    _if("_mempool", "L.order ~= 'nonce'", "nonces_give_the_order_not_arrival", "true"),
    Guard(
        "_mempool",
        "(t.state == 'waiting' or t.state == 'unsure') and (not first or t.seq < first.seq)",
        "not first or t.seq < first.seq",
        "without_order_everything_is_out_at_once",
    ),
    Guard(
        "_mempool",
        "(not first or t.seq < first.seq) then",
        "not first then",
        "arrival_order_sends_gaps_in_the_order_they_came",
    ),
    Guard(
        "_mempool",
        "  if L.next_after == 'count' and s.next > floor_of(s) then return nil end\n",
        "",
        "next_nonce_waits_for_the_count_when_told_so",
    ),
    Guard(
        "_mempool",
        "if s.paused == 0 and not hold(s.address)",
        "if not hold(s.address)",
        "retry_waits_its_time_and_may_be_replaced",
    ),
    Guard(
        "_mempool",
        "if s.paused == 0 and not hold(s.address)",
        "if s.paused == 0",
        "reopened_bytes_wait_for_the_one_under_way",
    ),
    Guard(
        "_mempool",
        "s.kept_bytes > 0 and s.kept_bytes + t.size > L.sender_bytes then",
        "false then",
        "one_sender_keeps_its_share_of_the_bytes_and_others_go_on",
    ),
    Guard(
        "_mempool",
        "t.state == 'waiting' and s.kept_bytes > 0 and",
        "s.kept_bytes > 0 and",
        "bytes_that_are_kept_already_need_no_room_to_go_again",
    ),
    Guard(
        "_mempool",
        "s.kept_bytes > 0 and s.kept_bytes + t.size",
        "s.kept_bytes + t.size",
        "first_bytes_of_a_sender_may_exceed_its_share",
    ),
    Guard(
        "_mempool",
        "  if s.queued ~= '-' then redis.call('ZREM', KEYS[7], s.queued) end\n",
        "",
        "drop_of_a_head_frees_its_place_in_line",
    ),
    Guard(
        "_mempool",
        "if t.sent_at == 0 then t.sent_at = now end",
        "t.sent_at = now",
        "sent_ones_that_do_not_land_expire_from_their_first_send",
    ),
    Guard(
        "_mempool",
        "  elseif state == 'unsure' then\n    redis.call('ZADD', KEYS[12], digits(now + L.idle_ms), t.hash)\n",
        "",
        "unsure_ones_expire_behind_a_missing_nonce_only",
    ),
    Guard(
        "_mempool",
        "    if L.resend_ms > 0 then wake_at(s, now + L.resend_ms) end\n  elseif",
        "  elseif",
        "sent_bytes_go_again_after_a_while_lowest_nonce_first",
    ),
    Guard(
        "_mempool",
        "if (state == 'waiting' or state == 'unsure') and t.nonce < s.next then",
        "if false then",
        "sent_bytes_that_are_reopened_go_again_before_what_follows",
    ),
    Guard(
        "_mempool",
        "if hash ~= t.hash then left[#left + 1] = hash end",
        "left[#left + 1] = hash",
        "refusal_ends_it_and_successors_become_gapped",
    ),
    Guard("_mempool", "if #left > 0 then", "if false then", "refused_replacement_leaves_the_sent_bytes_followed"),
    Guard(
        "_mempool",
        "    if L.resend_ms > 0 then wake_at(s, now + L.resend_ms) end -- what",
        "    -- what",
        "bytes_whose_replacement_is_refused_go_again",
    ),
    Guard(
        "_mempool",
        "if floor <= t.nonce and t.nonce < s.run then",
        "if false then",
        "refusal_ends_it_and_successors_become_gapped",
    ),
    Guard(
        "_mempool",
        "if floor <= t.nonce and t.nonce < s.run then",
        "if t.nonce < s.run then",
        "end_below_the_count_leaves_the_run",
    ),
    Guard(
        "_mempool",
        "if floor <= t.nonce and t.nonce < s.next then s.next = t.nonce end",
        "",
        "end_of_a_sent_one_reopens_its_nonce",
    ),
    Guard("_mempool", "    s.paused = 0\n", "", "pause_ends_with_the_last_transaction"),
    Guard(
        "_mempool",
        "ZCARD', KEYS[15]) > L.ended_limit then",
        "ZCARD', KEYS[15]) > 10^9 then",
        "oldest_ends_are_forgotten_when_there_are_too_many",
    ),
]

GRANTS = [
    _if("_mempool_server", "C.replid ~= '' and C.replid ~= found", "server_that_changed_leaves_everything_in_doubt"),
    Guard("_mempool_server", "    redis.call('DEL', KEYS[13])\n", "", "server_that_changed_ends_every_hold"),
    Guard(
        "_mempool_server",
        "C.quiet, C.doubt = now + L.quiet_ms, C.seq",
        "C.quiet = now + L.quiet_ms",
        "bytes_in_doubt_are_not_replaced_on_a_strict_node",
    ),
    Guard("mempool_heartbeat", "look dead\nmind_the_server()\n", "look dead\n", "server_that_changed_ends_every_hold"),
    Guard("mempool_take", "sends\nmind_the_server()\n", "sends\n", "server_that_changed_leaves_everything_in_doubt"),
    Guard(
        "mempool_admit",
        "mind_the_server()\nlocal owner",
        "local owner",
        "bytes_in_doubt_are_not_replaced_on_a_strict_node",
    ),
    Guard("mempool_done", "s.address)\nmind_the_server()\n", "s.address)\n", "done_notices_a_server_that_changed"),
    Guard(
        "mempool_admit",
        "(old.state ~= 'waiting' or old.seq <= C.doubt)",
        "old.state ~= 'waiting'",
        "bytes_in_doubt_are_not_replaced_on_a_strict_node",
    ),
    Guard(
        "_mempool_grant",
        "last ~= nil and now - last < L.alive_ms and now >= C.quiet",
        "last ~= nil and now >= C.quiet",
        "only_a_living_instance_is_granted_anything",
    ),
    Guard("_mempool_grant", " and now >= C.quiet", "", "new_store_is_quiet_for_a_while"),
    Guard(
        "_mempool_grant",
        "not last or now - last >= L.alive_ms or since > h.at",
        "not last or since > h.at",
        "dead_holder_is_taken_over_after_its_last_heartbeat",
    ),
    Guard("_mempool_grant", " or since > h.at then", " then", "instance_that_was_silent_holds_nothing_any_more"),
    Guard("_mempool_grant", "if not last or now", "if now", "stopping_instance_gets_no_more_and_leaves_its_holds"),
    Guard(
        "_mempool_grant",
        "return now >= h.till",
        "return false",
        "late_holder_is_taken_over_at_its_deadline_and_not_before",
    ),
    Guard(
        "_mempool_grant",
        "return now >= h.till",
        "return true",
        "late_holder_is_taken_over_at_its_deadline_and_not_before",
    ),
    Guard(
        "_mempool_grant",
        "(t.state ~= 'waiting' or t.seq <= C.doubt)",
        "(t.seq <= C.doubt)",
        "late_holder_is_taken_over_at_its_deadline_and_not_before",
    ),
    Guard(
        "_mempool_grant",
        "(t.state ~= 'waiting' or t.seq <= C.doubt)",
        "(t.state ~= 'waiting')",
        "server_that_changed_leaves_everything_in_doubt",
    ),
    Guard(
        "_mempool_grant",
        "redis.call('HLEN', KEYS[10]) >= L.executors or ",
        "",
        "executors_bound_all_instances_together",
    ),
    Guard("_mempool_grant", " or not may_grant(owner)", "", "only_a_living_instance_is_granted_anything"),
    Guard(
        "_mempool_grant",
        "C.kept_bytes > 0 and C.kept_bytes + t.size > L.kept_bytes then",
        "false then",
        "kept_bytes_stop_grants_until_something_ends",
    ),
    Guard(
        "_mempool_grant",
        "t.state == 'waiting' and C.kept_bytes > 0",
        "C.kept_bytes > 0",
        "bytes_that_are_kept_already_need_no_room_to_go_again",
    ),
    Guard(
        "_mempool_grant",
        "C.kept_bytes > 0 and C.kept_bytes + t.size",
        "C.kept_bytes + t.size",
        "single_transaction_larger_than_the_room_still_goes",
    ),
]

COUNTS = [
    Guard(
        "_mempool_observe",
        "read.orphaned ~= '-' and read.orphaned == s.block",
        "true",
        "lower_count_is_not_believed_without_a_reorg",
    ),
    Guard("_mempool_observe", "read.orphaned == s.block", "true", "lower_count_is_not_believed_without_a_reorg"),
    Guard("_mempool_observe", "not L.strict and ", "", "count_never_goes_down_on_a_strict_node"),
    Guard(
        "_mempool_observe",
        "if read.count < before and not reorg then return 'lower', {} end",
        "",
        "lower_count_is_not_believed_without_a_reorg",
    ),
    Guard(
        "_mempool_observe",
        "read.count ~= before or not below(read.height, s.height)",
        "true",
        "same_count_at_a_lower_height_keeps_the_higher_block",
    ),
    Guard("_mempool_observe", "read.count ~= before or ", "", "raised_count_at_a_lower_height_brings_its_block"),
    Guard("_mempool_observe", "if reorg then low, high = read.count, before end", "", "reorg_reopens_landed_bytes"),
    Guard(
        "_mempool_observe", "      if nonce >= high then break end\n", "", "higher_count_lands_only_what_is_below_it"
    ),
    Guard(
        "_mempool_observe",
        "if t.state == 'processing' then release(s.address) end",
        "",
        "count_that_passes_a_hold_ends_it",
    ),
    Guard(
        "_mempool_observe",
        "if t.state == 'processing' then release",
        "if true then release",
        "count_below_a_hold_leaves_it",
    ),
    Guard(
        "_mempool_observe",
        "first and 'unsure' or 'sent'",
        "'unsure'",
        "reorg_sends_only_the_newest_bytes_of_a_nonce_again",
    ),
    Guard(
        "_mempool_observe", "if floor_of(s) < floor then", "if false then", "reorg_behind_a_finished_nonce_leaves_a_gap"
    ),
]

ADMIT = [
    Guard(
        "mempool_admit",
        "if known and not known.gone then -- rule 1",
        "if false then",
        "same_bytes_twice_are_known_in_every_state",
    ),
    Guard(
        "mempool_admit", "known and not known.gone then", "known then", "bytes_purged_in_a_batch_may_come_again_in_it"
    ),
    Guard("mempool_admit", "if known.call == name then", "if false then", "repeated_calls_answer_the_same"),
    Guard(
        "mempool_admit", "if known.call == name then", "if true then", "same_bytes_twice_in_one_batch_are_stored_once"
    ),
    Guard(
        "mempool_admit",
        "if cold[address] then return {'cold', '0', '0', '', ''} end",
        "",
        "cold_sender_keeps_its_order_in_a_batch",
    ),
    Guard("mempool_admit", "if s and read then", "if false then", "count_read_for_an_admit_counts"),
    Guard(
        "mempool_admit",
        "(gapped or now - s.read >= L.count_fresh_ms)",
        "gapped",
        "sender_without_a_fresh_count_is_cold_and_leaves_nothing",
    ),
    Guard(
        "mempool_admit",
        "(gapped or now - s.read >= L.count_fresh_ms)",
        "now - s.read >= L.count_fresh_ms",
        "nothing_is_called_gapped_before_the_count_is_read_again",
    ),
    Guard(
        "mempool_admit", "if held and held.nonce == nonce then", "if false then", "nonce_that_is_processing_is_refused"
    ),
    Guard("mempool_admit", "held.nonce == nonce then", "true then", "nonce_that_is_processing_is_refused"),
    Guard("mempool_admit", "if nonce < s.count then", "if false then", "nonce_below_the_count_is_low_in_every_state"),
    Guard(
        "mempool_admit",
        "old and L.strict and (old.state ~= 'waiting' or",
        "old and L.strict and (false or",
        "sent_nonce_is_low_on_a_strict_node_and_replaced_on_another",
    ),
    Guard(
        "mempool_admit", "old and L.strict and", "old and", "sent_nonce_is_low_on_a_strict_node_and_replaced_on_another"
    ),
    Guard(
        "mempool_admit",
        " and (old.state ~= 'waiting' or old.seq <= C.doubt)",
        "",
        "waiting_nonce_is_replaced_on_a_strict_node",
    ),
    Guard(
        "mempool_admit",
        "if old and old.price > beats then",
        "if false then",
        "replacement_at_the_same_price_is_refused",
    ),
    Guard(
        "mempool_admit",
        "local replaced = old and old.state == 'waiting' and old or nil",
        "local replaced = old",
        "both_hashes_of_a_replaced_nonce_are_followed",
    ),
    Guard("mempool_admit", "if others >= L.per_sender or (", "if (", "one_sender_has_so_many_and_no_more"),
    Guard(
        "mempool_admit",
        " or (others > 0 and s.waiting_bytes + room > L.sender_bytes) then",
        " then",
        "one_sender_has_its_share_of_the_bytes",
    ),
    Guard(
        "mempool_admit",
        "(others > 0 and s.waiting_bytes + room > L.sender_bytes)",
        "(s.waiting_bytes + room > L.sender_bytes)",
        "one_sender_has_its_share_of_the_bytes",
    ),
    Guard(
        "mempool_admit",
        "if gapped and (full or waits() > L.watermark) then",
        "if false then",
        "gap_above_the_watermark_without_gapped_ones_is_refused",
    ),
    Guard(
        "mempool_admit",
        "(full or waits() > L.watermark)",
        "(waits() > L.watermark)",
        "high_watermark_of_one_still_purges_no_dearer_gap",
    ),
    Guard("mempool_admit", "waits() > L.watermark", "waits() >= L.watermark", "gap_at_the_watermark_is_accepted"),
    Guard(
        "mempool_admit",
        "(full or waits() > L.watermark)",
        "full",
        "gap_between_watermark_and_capacity_must_beat_a_gapped_one",
    ),
    Guard(
        "mempool_admit",
        "if redis.call('ZCARD', KEYS[8]) == 0 then return {'gap', s.run, '0', '', ''} end",
        "",
        "gap_above_the_watermark_without_gapped_ones_is_refused",
    ),
    Guard(
        "mempool_admit",
        "if price <= cheapest(KEYS[8]) then",
        "if false then",
        "gap_above_the_watermark_at_an_equal_price_is_refused",
    ),
    Guard(
        "mempool_admit",
        "if price <= cheapest(KEYS[8]) then",
        "if price < cheapest(KEYS[8]) then",
        "gap_above_the_watermark_at_an_equal_price_is_refused",
    ),
    Guard(
        "mempool_admit",
        "elseif full then",
        "elseif false then",
        "eleventh_at_the_lowest_price_is_refused",
    ),
    Guard(
        "mempool_admit",
        "if lowest == '' or (other ~= '' and other < lowest) then lowest = other end",
        "if lowest == '' then lowest = other end",
        "gapped_are_purged_before_cheaper_pending_ones",
    ),
    Guard("mempool_admit", "if lowest == '' or (other", "if (other", "eleventh_at_the_lowest_price_is_refused"),
    Guard(
        "mempool_admit",
        "(other ~= '' and other < lowest)",
        "(other < lowest)",
        "full_mempool_of_gaps_still_asks_for_a_price",
    ),
    Guard(
        "mempool_admit", "if price <= lowest then", "if price < lowest then", "eleventh_at_the_lowest_price_is_refused"
    ),
    Guard(
        "mempool_admit",
        "if not purged then return {'full', s.run, '0', '', ''} end",
        "purged = purged or {}",
        "bytes_are_bounded_and_only_dearer_ones_make_room",
    ),
    Guard(
        "mempool_admit",
        "if excess <= 0 and t.price >= price then return nil end",
        "",
        "bytes_are_bounded_and_only_dearer_ones_make_room",
    ),
    Guard(
        "mempool_admit",
        "if excess <= 0 and t.price >= price",
        "if t.price >= price",
        "gapped_are_purged_before_cheaper_pending_ones",
    ),
    Guard(
        "mempool_admit",
        "gapped and {KEYS[8]} or {KEYS[8], KEYS[9]}",
        "{KEYS[8], KEYS[9]}",
        "gapped_newcomer_never_purges_pending_ones_for_bytes",
    ),
    Guard(
        "mempool_admit",
        "{KEYS[8]} or {KEYS[8], KEYS[9]}",
        "{KEYS[8]} or {KEYS[9], KEYS[8]}",
        "gapped_are_purged_before_cheaper_pending_ones",
    ),
    Guard("mempool_admit", "if t ~= replaced then", "if true then", "replacement_cannot_grow_beyond_the_bytes"),
    Guard("mempool_admit", "if more then excess", "if true then excess", "replacement_is_exempt_from_the_capacity"),
    Guard(
        "mempool_admit",
        "        if excess <= 0 and excess_bytes <= 0 then break end\n",
        "",
        "cheapest_gapped_is_purged_first",
    ),
    Guard(
        "mempool_admit",
        "if excess > 0 or excess_bytes > 0 then return nil end",
        "",
        "gapped_newcomer_never_purges_pending_ones_for_bytes",
    ),
    Guard("mempool_admit", "  redis.call('ZREM', KEYS[12], address)\n", "", "sender_that_comes_back_is_not_forgotten"),
    Guard(
        "mempool_admit",
        "if nonce < s.next then s.next = nonce end",
        "",
        "replacement_of_a_sent_nonce_goes_before_what_waits",
    ),
    Guard(
        "mempool_admit",
        "if replaced then finish(replaced, 'replaced', '', '') end",
        "",
        "replacement_at_a_higher_price_takes_the_place",
    ),
    Guard("mempool_admit", "if L.order == 'none' then", "if false then", "without_order_everything_is_out_at_once"),
    Guard("mempool_admit", "if owner ~= '' then", "if false then", "nonce_that_is_processing_is_refused"),
    Guard("mempool_admit", "not fresh[head(s).hash] or ", "", "admit_grants_only_when_no_better_head_waits"),
    Guard(
        "mempool_admit",
        "h.call == call and h.owner == owner",
        "h.owner == owner",
        "repeated_admit_tells_no_later_grant",
    ),
    Guard("mempool_admit", " and h.owner == owner", "", "repeated_admit_tells_no_grant_of_somebody_else"),
    Guard("mempool_admit", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", "repeated_admit_writes"),
]

TAKE = [
    Guard(
        "mempool_take",
        "if h.call == call and h.owner == owner then",
        "if false then",
        "repeated_calls_answer_the_same",
    ),
    Guard("mempool_take", "h.call == call and ", "", "take_answers_only_its_own_grants"),
    Guard("mempool_take", " and h.owner == owner then", " then", "same_call_of_somebody_else_gets_nothing"),
    Guard("mempool_take", "if s.paused <= now then", "if true then", "resend_does_not_end_a_pause"),
    Guard(
        "mempool_take",
        "if L.resend_ms > 0 then",
        "if false then",
        "sent_bytes_go_again_after_a_while_lowest_nonce_first",
    ),
    Guard("mempool_take", "if t.state == 'sent' then", "if true then", "resend_leaves_what_waits_alone"),
    Guard("mempool_take", "if t.moved + L.resend_ms <= now then", "if true then", "sent_bytes_due_first_set_the_time"),
    Guard("mempool_take", ", 'LIMIT', 0, L.page", "", "take_rouses_a_bounded_number_of_senders"),
    Guard("mempool_take", "if may_grant(owner) then", "if true then", "take_over_needs_a_living_instance"),
    Guard(
        "mempool_take",
        "if h and lapsed(h) then",
        "if true then",
        "late_holder_is_taken_over_at_its_deadline_and_not_before",
    ),
    Guard("mempool_take", "math.min(most, #late)", "#late", "take_over_takes_no_more_than_asked_for"),
    Guard("mempool_take", "if due then times[1] = tonumber(due) end", "", "retry_waits_its_time_and_may_be_replaced"),
    Guard("mempool_take", "if quiet then times[#times + 1] = C.quiet end", "", "new_store_is_quiet_for_a_while"),
]

DONE = [
    Guard("mempool_done", "if not s then return {'stale', {}, '0', '0'} end", "", "done_of_an_unknown_sender_is_stale"),
    Guard(
        "mempool_done",
        "not h or h.fence ~= fence or h.owner ~= owner",
        "not h or h.owner ~= owner",
        "done_of_a_late_holder_that_took_over_itself_is_stale",
    ),
    Guard(
        "mempool_done",
        "h.fence ~= fence or h.owner ~= owner",
        "h.fence ~= fence",
        "done_by_somebody_else_changes_nothing",
    ),
    Guard(
        "mempool_done",
        "if s.done ~= fence then return {'stale', {}, '0', digits(s.waiting)} end",
        "",
        "done_of_a_stale_holder_changes_nothing",
    ),
    Guard(
        "mempool_done",
        "if next.after == fence and next.owner == owner then",
        "if false then",
        "done_twice_is_done_once",
    ),
    Guard("mempool_done", "next.after == fence and ", "", "done_twice_tells_only_its_own_grant"),
    Guard(
        "mempool_done",
        "next.after == fence and next.owner == owner",
        "next.after == fence",
        "done_twice_by_somebody_else_tells_no_grant",
    ),
    Guard(
        "mempool_done",
        "C.waiting_bytes + t.size <= L.kept_bytes and ",
        "",
        "retry_that_does_not_fit_by_bytes_breaks_no_limit",
    ),
    Guard(
        "mempool_done", " and C.waiting < L.capacity", "", "retry_in_a_full_mempool_loses_nothing_and_breaks_no_limit"
    ),
    Guard("mempool_done", "h.again == '0' and ", "", "retry_of_what_may_have_been_sent_stays_unsure"),
    Guard("mempool_done", "if verdict == 'sent' then", "if false then", "next_nonce_waits_for_the_count_when_told_so"),
    Guard(
        "mempool_done",
        "elseif verdict == 'refuse' then",
        "elseif false then",
        "refusal_ends_it_and_successors_become_gapped",
    ),
    Guard("mempool_done", "elseif verdict == 'retry' and", "elseif", "maybe_waits_and_holds_back_what_follows"),
    Guard(
        "mempool_done",
        "(verdict == 'retry' or verdict == 'maybe') and wait > 0",
        "wait > 0",
        "only_retry_and_maybe_pause_the_sender",
    ),
    Guard(
        "mempool_done",
        "verdict == 'maybe') and wait > 0 then",
        "verdict == 'maybe') and false then",
        "retry_waits_its_time_and_may_be_replaced",
    ),
    Guard(
        "mempool_done", "if ARGV[10] == '1' then", "if true then", "stopping_instance_gets_no_more_and_leaves_its_holds"
    ),
]

OTHERS = [
    Guard("mempool_observe", "if not s then", "if false then", "count_of_an_unknown_sender_is_not_kept"),
    Guard(
        "mempool_reopen",
        "if t and t.state == 'sent' then",
        "if t then",
        "only_the_newest_bytes_of_a_nonce_are_reopened",
    ),
    Guard(
        "mempool_reopen",
        "if newest(s, t.nonce) == t then",
        "if true then",
        "only_the_newest_bytes_of_a_nonce_are_reopened",
    ),
    Guard(
        "mempool_end",
        " and not string.find(ARGV[2], ' ' .. t.state .. ' ', 1, true)",
        "",
        "what_is_processing_has_no_end_yet",
    ),
    Guard("mempool_end", "t and not t.gone and", "t and", "end_told_twice_in_one_call_is_one_end"),
    Guard("mempool_end", "if t and not", "if not", "unknown_things_are_none"),
    Guard("mempool_expire", "if last + L.ended_ms <= now then", "if false then", "dead_instances_leave_nothing"),
    Guard("mempool_expire", "if last + L.ended_ms <= now then", "if true then", "living_instances_are_not_forgotten"),
    Guard(
        "mempool_expire",
        "digits(now - L.ended_ms)",
        "digits(now)",
        "end_removes_what_landed_and_tells_why_for_ten_minutes",
    ),
    Guard(
        "mempool_expire",
        "if t and t.state == 'unsure' and",
        "if false and",
        "unsure_ones_expire_behind_a_missing_nonce_only",
    ),
    Guard(
        "mempool_expire",
        " and (L.order ~= 'nonce' or t.nonce <= sender(t.sender).run)",
        "",
        "unsure_ones_expire_behind_a_missing_nonce_only",
    ),
    Guard(
        "mempool_expire",
        "(L.order ~= 'nonce' or t.nonce <= sender(t.sender).run)",
        "t.nonce <= sender(t.sender).run",
        "unsure_ones_never_expire_where_gaps_are_sent",
    ),
    Guard("mempool_expire", "if s then s.gone = true end", "", "idle_sender_is_forgotten_when_its_count_is_old"),
    Guard(
        "mempool_heartbeat",
        "not last or now - last >= L.alive_ms",
        "not last",
        "instance_that_was_silent_holds_nothing_any_more",
    ),
    Guard(
        "mempool_heartbeat",
        "if lapsed then since = digits(now) end",
        "since = since or digits(now)",
        "instance_that_was_silent_holds_nothing_any_more",
    ),
    Guard(
        "mempool_read",
        "if shown and #found < tonumber(ARGV[5]) then",
        "if #found < tonumber(ARGV[5]) then",
        "content_shows_waiting_processing_and_unsure_by_sender_and_nonce",
    ),
    Guard("mempool_read", "if t.state ~= 'waiting' then out", "if true then out", "followed_tells_only_what_is_out"),
]

FULL = [
    Guard(name, f"redis.call('{word}', KEYS[{key}], '')", "", "full_server_still_sends_learns_and_ends")
    for name, word, key in (
        ("mempool_take", "ZREM", 7),
        ("mempool_observe", "ZREM", 7),
        ("mempool_reopen", "ZREM", 7),
        ("mempool_end", "ZREM", 7),
        ("mempool_expire", "ZREM", 7),
        ("mempool_heartbeat", "HDEL", 13),
    )
]

GUARDS = [*BOOK, *GRANTS, *COUNTS, *ADMIT, *TAKE, *DONE, *OTHERS, *FULL]
