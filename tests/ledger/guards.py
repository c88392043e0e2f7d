"""Every guard of every Lua script, what replaces it when it is taken out, and the promise that must then break."""

from __future__ import annotations

from typing import NamedTuple

from txmanager.core.ledger import SCHEMA

FENCE = "if out then return out end"
HELD = "held_intent_gets_no_attempt_that_nobody_asked_for"
REPLAY = "replay_of_every_durable_call_writes"
_TOLD_AGAIN = "worker_that_was_forgotten_tells_its_lanes_again"
_VERSIONS = "digests_of_members_go_with_them"


class Guard(NamedTuple):
    script: str
    text: str
    without: str
    promise: str
    schema: int = SCHEMA
    """Of the installation in which the promise breaks."""


def _full(promise: str) -> str:
    return f"full_server_lets_{promise}"


HOMES = [
    Guard("claim", "if not home then", "if true then", "first_claim_wins_and_later_ones_learn_lane_and_life"),
    Guard(
        "claim",
        "if fingerprint ~= wanted then return {'conflict'} end",
        "",
        "same_key_with_another_payload_is_a_conflict_that_changes_nothing",
    ),
    Guard("claim", "if final ~= '' then", "if false then", "home_retired_and_key_retried_answers_the_stored_result"),
    Guard("claim", "if life == 'alias' then return {'alias', lane} end", "", "alias_answers_with_the_target"),
    Guard("claim", "redis.call('SETRANGE', key, 0, string.sub(home, 1, 1))", "", REPLAY),
    Guard("alias", "if home then", "if false then", "alias_of_a_claimed_key_tells_what_is_there"),
    Guard(
        "alias",
        "if fingerprint ~= ARGV[2] then return {'conflict'} end",
        "",
        "alias_with_another_payload_is_a_conflict",
    ),
    Guard("alias", "if final ~= '' then", "if false then", "alias_of_a_claimed_key_tells_what_is_there"),
    Guard(
        "alias",
        "if life ~= 'alias' then return {'renewed', target, life, now} end",
        "",
        "alias_of_a_claimed_key_tells_what_is_there",
    ),
    Guard("alias", "redis.call('SETRANGE', KEYS[1], 0, string.sub(home, 1, 1))", "", REPLAY),
    Guard("move", "if not home then return {'conflict'} end", "", "move_of_another_life_is_a_conflict"),
    Guard("move", "if life ~= ARGV[2] then return {'conflict'} end", "", "move_of_another_life_is_a_conflict"),
    Guard("move", "if final ~= '' then", "if false then", "move_of_a_final_key_answers_its_record"),
    Guard("move", "if lane == ARGV[3] then", "if true then", "only_the_first_of_two_moves_counts"),
    Guard("move", "redis.call('SETRANGE', KEYS[1], 0, string.sub(home, 1, 1))", "", REPLAY),
    Guard(
        "retire_home",
        "if string.sub(home, from + 1, from + #life + 1) ~= life .. ' ' then return 'other_life' end",
        "",
        "past_of_a_reused_key_never_overwrites_its_new_life",
    ),
    Guard(
        "retire_home",
        "if ends and ends < #home then",
        "if false then",
        "retire_of_a_record_that_ended_otherwise_changes_nothing",
    ),
    Guard("retire_home", "redis.call('SETRANGE', key, 0, string.sub(home, 1, 1))", "", REPLAY),
    Guard("retire_home", "redis.call('ZREM', KEYS[2], '')", "", _full("settle_and_retire")),
    Guard("retire_home", ", 'PX', keep_ms)", ")", "homes_and_tombstones_expire"),
    Guard("forget", "final ~= '' or ", "", "forget_deletes_only_the_claim_that_was_read"),
    Guard("forget", "life ~= ARGV[2] or ", "", "forget_deletes_only_the_claim_that_was_read"),
    Guard("forget", " or born ~= ARGV[3]", "", "forget_deletes_only_the_claim_that_was_read"),
    Guard("stale", "'(' .. digits(clock() - ARGV[1])", "'+inf'", "sweep_deletes_claims_that_never_got_a_record"),
]

APPEND = [
    Guard(
        "append",
        "record[1] == 'retired' and record[2] == life or",
        "false or",
        "append_after_retirement_meets_a_tombstone",
        1,
    ),
    Guard(
        "append",
        "record[1] == 'retired' and record[2] == life",
        "record[1] == 'retired'",
        "key_used_again_after_its_retention_has_another_life",
    ),
    Guard(
        "append",
        "elseif record[1] and record[1] ~= 'retired' then",
        "elseif false then",
        "append_again_answers_the_same_entry",
    ),
    Guard("append", "if record[2] == life then", "if true then", "record_of_another_life_in_the_lane_is_told_apart"),
    Guard(
        "append",
        "elseif born < now - ARGV[1] then",
        "elseif false then",
        "append_of_an_old_claim_is_stale_and_of_a_future_one_ahead",
    ),
    Guard(
        "append",
        "elseif born > now + ARGV[1] then",
        "elseif false then",
        "append_of_an_old_claim_is_stale_and_of_a_future_one_ahead",
    ),
    Guard("append", "not lane[1] or ", "", "lane_that_nobody_registered_is_closed_to_appends"),
    Guard("append", " or lane[1] == 'closed'", "", "closed_lane_takes_nothing_and_its_claim_moves"),
    Guard(
        "append",
        "elseif depth >= most_queued then",
        "elseif false then",
        "full_queue_pushes_back_and_takes_again_after_room",
    ),
    Guard("append", "if record[1] then redis.call('DEL', key) end", "", "record_of_a_second_life_does_not_expire"),
    Guard("append", "if appended then", "if false then", "append_wakes_whoever_waits_for_the_lane"),
    Guard("append", "elseif replayed then", "elseif false then", REPLAY),
]

OWNERS = [
    Guard("lease", "if not lane[1] then return {'unknown'} end", "", "lane_nobody_registered_or_closed_is_not_leased"),
    Guard(
        "lease",
        "if lane[1] == 'closed' then return {'closed'} end",
        "",
        "lane_nobody_registered_or_closed_is_not_leased",
    ),
    Guard(
        "lease",
        "if tonumber(lane[2]) > tonumber(ARGV[4]) then return {'schema', lane[2]} end",
        "",
        "lane_of_a_newer_schema_is_not_leased",
    ),
    Guard("lease", "if lane[3] ~= ARGV[2] then", "if true then", "lease_again_with_the_same_token_is_the_same_lease"),
    Guard("lease", "tonumber(lane[4]) > now", "false", "lease_has_one_owner_and_says_who_for_how_long"),
    Guard("lease", "tonumber(lane[4]) > now", "true", "stale_owner_cannot_settle"),
    Guard("lease", "redis.call('HINCRBY', KEYS[1], 'epoch', 1)", "", "renew_of_a_stale_owner_names_the_new_one"),
    Guard("renew", FENCE, "", "renew_of_a_stale_owner_names_the_new_one"),
    Guard("renew", "held[1] == epoch and ", "", "fence_needs_both_epoch_and_token"),
    Guard("renew", " and held[2] == token", "", "fence_needs_both_epoch_and_token"),
    Guard("renew", "redis.call('HDEL', KEYS[1], 'until')", "", _full("renew_and_release")),
    Guard("release", "if out then", "if false then", "released_lane_is_free_at_once_and_a_repeat_is_answered_the_same"),
    Guard(
        "release",
        "if last[1] == ARGV[1] and last[2] == ARGV[2] then return {'released'} end",
        "",
        "released_lane_is_free_at_once_and_a_repeat_is_answered_the_same",
    ),
    Guard("release", "last[1] == ARGV[1] and ", "", "released_lane_is_free_at_once_and_a_repeat_is_answered_the_same"),
    Guard("release", " and last[2] == ARGV[2]", "", "fence_of_a_released_lane_is_not_guessed"),
    Guard("release", "redis.call('HDEL', KEYS[1], 'until')", "", _full("renew_and_release")),
    Guard("baseline", FENCE, "", "stale_owner_cannot_set_the_baseline"),
    Guard("baseline", "if not cursor then", "if cursor then", "baseline_is_set_once_and_raised_by_an_operator_only"),
    Guard("baseline", "ARGV[4] == 'operator'", "true", "baseline_is_set_once_and_raised_by_an_operator_only"),
    Guard("baseline", "if below(cursor, ARGV[3])", "if true", "baseline_is_set_once_and_raised_by_an_operator_only"),
    Guard("baseline", "below(baseline, ARGV[3])", "true", "operator_vouches_below_the_cursor_without_moving_it"),
    Guard("baseline", "baseline = ARGV[3]", "", "operator_vouches_below_the_cursor_without_moving_it"),
    Guard(
        "baseline",
        "if #a ~= #b then return #a < #b end",
        "",
        "baseline_is_set_once_and_raised_by_an_operator_only",
    ),
    Guard("baseline", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", REPLAY),
    Guard("baseline", "redis.call('HDEL', KEYS[1], 'settling')", "", _full("a_lane_be_baselined_and_vouched_for")),
    Guard("vouch", FENCE, "", "stale_owner_cannot_vouch"),
    Guard(
        "vouch",
        "if stored == ARGV[3] then",
        "if true then",
        "vouch_changes_the_history_id_only_from_the_one_that_was_seen",
    ),
    Guard(
        "vouch",
        "elseif stored ~= ARGV[4] then",
        "else",
        "vouch_changes_the_history_id_only_from_the_one_that_was_seen",
    ),
    Guard("vouch", "redis.call('HDEL', KEYS[1], 'settling')", "", _full("a_lane_be_baselined_and_vouched_for")),
    Guard("unfinished", FENCE, "", "stale_owner_cannot_read_the_unfinished"),
]

ATTEMPTS = [
    Guard("record_attempts", FENCE, "", "stale_owner_cannot_write_ahead"),
    Guard(
        "record_attempts",
        "if recorded > 0 and recorded == #writes then",
        "if false then",
        "write_ahead_again_is_recognised_and_changes_nothing",
    ),
    Guard("record_attempts", "recorded > 0 and ", "", "empty_write_ahead_still_checks"),
    Guard("record_attempts", " and recorded == #writes", "", "write_ahead_that_is_half_recorded_is_refused"),
    Guard(
        "record_attempts",
        "write.ours = life == write.life and ",
        "write.ours = ",
        "write_ahead_of_another_life_is_not_a_replay",
    ),
    Guard("record_attempts", "  redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", REPLAY),
    Guard(
        "record_attempts",
        "if lane[2] ~= found then return {'rolled_back', lane[2], found} end",
        "",
        "nothing_is_signed_on_a_server_with_another_history_until_somebody_vouches",
    ),
    Guard(
        "record_attempts",
        "if lane[3] == 'quarantined' then return {'refused', 'lane', 'the lane is quarantined'} end",
        "",
        "quarantined_lane_signs_nothing_at_all",
    ),
    Guard(
        "record_attempts",
        "if lane[3] == 'paused' and #firsts > 0 then",
        "if false then",
        "paused_lane_signs_no_first_attempts_but_finishes_what_began",
    ),
    Guard(
        "record_attempts",
        " and #firsts > 0 then",
        " then",
        "paused_lane_signs_no_first_attempts_but_finishes_what_began",
    ),
    Guard(
        "record_attempts", "if lane[1] ~= ARGV[3] and ", "if false and ", "write_ahead_from_another_cursor_is_refused"
    ),
    Guard("record_attempts", "not oldest[i] or ", "oldest[i] and ", "first_attempt_of_a_signed_entry_is_refused"),
    Guard("record_attempts", "oldest[i][1] ~= write.sid", "false", "first_attempts_are_a_prefix_of_the_queue"),
    Guard("record_attempts", "if not write.ours then", "if false then", "one_bad_attempt_refuses_the_whole_batch"),
    Guard("record_attempts", " and write.status ~= 'retired'", "", "retired_record_gets_no_attempt"),
    Guard(
        "record_attempts",
        "if seen[write.id] then",
        "if false then",
        "two_attempts_for_one_intent_in_one_batch_are_refused",
    ),
    Guard(
        "record_attempts", "if status ~= 'queued' then", "if false then", "first_attempt_of_a_signed_entry_is_refused"
    ),
    Guard(
        "record_attempts",
        "elseif status ~= 'inflight' and (status ~= 'held' or write.purpose == 'replace') then",
        "elseif false then",
        "queued_entry_gets_only_a_first_attempt",
    ),
    Guard("record_attempts", " or write.purpose == 'replace') then", ") then", "held_intent_is_not_replaced"),
    Guard(
        "record_attempts",
        "if status == 'held' and",
        "if false and",
        HELD,
    ),
    Guard("record_attempts", " and not record['c'] then", " then", HELD),
    Guard("record_attempts", "not record['d'] and ", "", "held_intent_may_be_resigned_and_is_inflight_again"),
    Guard(
        "record_attempts",
        "if write.purpose == 'resign' and alive then",
        "if false then",
        "resign_needs_a_proof_for_every_live_attempt",
    ),
    Guard("record_attempts", "record['d:' .. name] or ", "", "resign_needs_a_proof_for_every_live_attempt"),
    Guard(
        "record_attempts",
        " or (write.deaths and write.deaths[name])",
        "",
        "resign_needs_a_proof_for_every_live_attempt",
    ),
    Guard(
        "record_attempts",
        "if write.purpose == 'replace' and not rival then",
        "if false then",
        "replacement_shares_the_nonce_of_a_live_attempt",
    ),
    Guard(
        "record_attempts", "if not dead then rival = true end", "rival = true", "replacement_of_a_dead_nonce_is_refused"
    ),
    Guard("record_attempts", "below(write.nonce, ARGV[3]) or ", "", "nonces_of_a_batch_grow_from_the_cursor"),
    Guard(
        "record_attempts", " or (last and not below(last, write.nonce))", "", "nonces_of_a_batch_grow_from_the_cursor"
    ),
    Guard("record_attempts", "if #a ~= #b then return #a < #b end", "", "nonces_of_a_batch_grow_from_the_cursor"),
    Guard(
        "record_attempts",
        "if write.record['a:' .. name] then",
        "if true then",
        "proof_never_covers_the_attempt_it_comes_with",
    ),
    Guard(
        "record_attempts",
        "if not outbids and write.purpose ~= 'given' then",
        "if true then",
        "replacement_shares_the_nonce_of_a_live_attempt",
    ),
    Guard(
        "record_attempts",
        "(write.purpose == 'replace' or write.purpose == 'noop')",
        "true",
        "resign_at_a_used_nonce_is_refused",
    ),
    Guard(
        "record_attempts",
        "if write.purpose ~= 'noop' then",
        "if true then",
        "noop_is_kept_on_the_record_it_kills_and_leaves_its_state",
    ),
    Guard(
        "record_attempts",
        " and write.status ~= 'inflight' then",
        " then",
        "replacement_shares_the_nonce_of_a_live_attempt",
    ),
    Guard(
        "record_attempts", "if write.counted == '1' then", "if true then", "resign_needs_a_proof_for_every_live_attempt"
    ),
    Guard(
        "record_attempts",
        "if #firsts > 0 then keep_too",
        "if false then keep_too",
        "write_ahead_moves_cursor_status_and_keeps_every_byte",
    ),
    Guard("record_attempts", "redis.call('HDEL', KEYS[1], 'settling')", "", _full("write_ahead")),
]

GONE = "if record[1] == 'retired' or record[2] ~= ARGV[{}] then return {{'gone'}} end"

ENDS = [
    Guard("settle", FENCE, "", "stale_owner_cannot_settle"),
    Guard(
        "settle",
        "if lane[1] ~= found then",
        "if false then",
        "an_end_that_no_chain_shows_waits_while_the_history_is_another",
    ),
    Guard("settle", "before == 'retired' or ", "", "settle_of_another_life_or_a_retired_record_is_gone"),
    Guard("settle", " or record[2] ~= life or", " or", "settle_of_another_life_or_a_retired_record_is_gone"),
    Guard(
        "settle",
        "elseif before == 'done' or before == 'failed' or before == 'cancelled' then",
        "elseif false then",
        "settle_again_is_already_and_another_end_is_a_conflict",
    ),
    Guard(
        "settle", "before == status and 'already'", "'already'", "settle_again_is_already_and_another_end_is_a_conflict"
    ),
    Guard(
        "settle",
        "not string.find(allowed[status], ' ' .. before .. ' ', 1, true)\n    or ",
        "",
        "settle_follows_the_table_of_transitions",
    ),
    Guard(
        "settle",
        "or not proven(KEYS[i], name, status, deaths, record[5])",
        "",
        "done_names_an_attempt_that_was_recorded",
    ),
    Guard("settle", "status ~= 'cancelled' and landed", "landed", "cancelled_never_names_an_effect_that_landed"),
    Guard(
        "settle", "landed and string.match(landed, '^(%a+)') ~= 'noop'", "landed", "noop_is_never_judged_as_the_outcome"
    ),
    Guard("settle", "if status == 'done' then return false end", "", "done_names_an_attempt_that_was_recorded"),
    Guard(
        "settle",
        " and not known['d:' .. attempt]",
        "",
        "failed_after_write_ahead_needs_every_effect_proven_dead",
    ),
    Guard("settle", " and not deaths[attempt]", "", "failed_after_write_ahead_needs_every_effect_proven_dead"),
    Guard(
        "settle",
        "if purpose ~= 'noop' then return false end",
        "",
        "failed_after_write_ahead_needs_every_effect_proven_dead",
    ),
    Guard(
        "settle", "if purpose ~= 'noop' then return false end", "return false", "noop_is_never_judged_as_the_outcome"
    ),
    Guard(
        "settle",
        "if redis.call('HEXISTS', KEYS[i], 'a:' .. death) == 1 then",
        "if true then",
        "settle_keeps_no_proof_of_what_was_never_recorded",
    ),
    Guard("settle", "not lane[3] or ", "lane[3] and ", "landed_only_grows_and_compares_as_a_number"),
    Guard("settle", "below(lane[3], ARGV[3])", "true", "landed_only_grows_and_compares_as_a_number"),
    Guard("settle", "if #a ~= #b then return #a < #b end", "", "landed_only_grows_and_compares_as_a_number"),
    Guard(
        "settle",
        "redis.call('PUBLISH', ARGV[4], table.concat(told, '\\n'))",
        "",
        "end_of_an_intent_wakes_its_callers",
    ),
    Guard("settle", "if record[4] then", "if false then", "end_of_an_intent_takes_the_operators_word_with_it"),
    Guard("settle", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", REPLAY),
    Guard(
        "settle",
        "redis.call('HDEL', KEYS[1], 'settling')",
        "",
        _full("settle_and_retire"),
    ),
    Guard(
        "settle",
        "redis.call('XACK', queue, 'lane', unpack(sids, from, to))",
        "",
        "what_an_older_release_read_through_the_group_is_acknowledged",
        1,
    ),
    Guard(
        "settle",
        "redis.call('XDEL', queue, unpack(sids, from, to))",
        "",
        "settle_stores_the_outcome_once_and_leaves_the_queue",
    ),
    Guard(
        "settle",
        "found = found + redis.call('SREM', open, unpack(ids, from, to))",
        "",
        "settle_stores_the_outcome_once_and_leaves_the_queue",
        1,
    ),
    Guard(
        "settle",
        "await_home(KEYS[5], waiting)",
        "",
        "settle_stores_the_outcome_once_and_leaves_the_queue",
    ),
    Guard("cancel", "record[1] == 'retired' or ", "", "cancel_script_finds_only_the_life_it_was_read_with"),
    Guard("cancel", " or record[2] ~= ARGV[2] then", " then", "cancel_script_finds_only_the_life_it_was_read_with"),
    Guard("cancel", "if unsigned then", "if true then", "cancel_of_an_inflight_intent_asks_its_owner_once"),
    Guard(
        "cancel",
        "if record[1] ~= 'inflight' and record[1] ~= 'held' then return {'final', record[1]} end",
        "",
        "cancel_script_finds_only_the_life_it_was_read_with",
    ),
    Guard("cancel", "if not record[4] then", "if true then", "cancel_of_an_inflight_intent_asks_its_owner_once"),
    Guard("cancel", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", REPLAY),
    Guard(
        "cancel",
        "redis.call('XACK', queue, 'lane', unpack(sids, from, to))",
        "",
        "what_an_older_release_read_through_the_group_is_acknowledged",
        1,
    ),
    Guard(
        "cancel",
        "redis.call('HDEL', KEYS[1], 'settling')",
        "",
        _full("cancel_of_an_inflight"),
    ),
    Guard("hold", FENCE, "", "stale_owner_cannot_hold"),
    Guard("hold", GONE.format(4), "", "hold_of_another_life_changes_nothing"),
    Guard(
        "hold",
        "if record[1] == 'held' then return {'held'} end",
        "",
        "hold_keeps_reason_and_evidence_and_a_landing_ends_it",
    ),
    Guard(
        "hold",
        "if record[1] ~= 'inflight' then return {'refused', record[1]} end",
        "",
        "only_an_inflight_intent_is_held",
    ),
    Guard("hold", "redis.call('HDEL', KEYS[3], 'h')", "", _full("hold")),
    Guard("resolve", GONE.format(1), "", "resolve_script_finds_only_the_life_it_was_read_with"),
    Guard(
        "resolve", "if record[1] ~= 'held' then return {'refused', record[1]} end", "", "only_a_held_intent_is_resolved"
    ),
    Guard(
        "resolve",
        "if asked then return {'asked'} end",
        "",
        "operators_word_waits_on_a_held_intent_until_it_is_answered",
    ),
    Guard("resolve", "redis.call('HDEL', KEYS[2], 'd')", "", _full("an_operator_be_heard")),
    Guard("answer", FENCE, "", "stale_owner_cannot_answer_an_operator"),
    Guard("answer", GONE.format(3), "", "operators_word_waits_on_a_held_intent_until_it_is_answered"),
    Guard("bury", "record[1] == ARGV[at + 2] and ", "", "retire_of_a_record_that_ended_otherwise_changes_nothing"),
    Guard("bury", " and record[2] == ARGV[at + 1]", "", "bury_compares_life_and_final_state"),
    Guard("bury", "redis.call('PEXPIRE', record, ms)", "", "homes_and_tombstones_expire"),
]

LANES = [
    Guard("register", "if lane[1] == 'closed' then", "if false then", "closed_lane_is_closed_for_ever"),
    Guard("register", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", "answer_that_a_lane_is_closed_writes_too"),
    Guard("register", "if lane[4] then", "if false then", "registered_lane_is_published_and_a_repeat_refreshes_it"),
    Guard("register", "redis.call('HDEL', KEYS[1], 'settling')", "", _full("workers_come_up")),
    Guard("set_lane", "if ARGV[5] ~= '' then", "if false then", "stale_owner_cannot_change_the_lane"),
    Guard(
        "set_lane",
        "if not state then return {'unknown'} end",
        "",
        "lane_state_carries_reason_and_evidence_and_counts_as_one_ask",
    ),
    Guard("set_lane", "if state ~= ARGV[1] then", "if true then", "lane_states_follow_the_table"),
    Guard(
        "set_lane",
        "if not string.find(ARGV[2], ' ' .. state .. ' ', 1, true) then return {'refused', state} end",
        "",
        "lane_states_follow_the_table",
    ),
    Guard(
        "set_lane",
        "if ARGV[1] == 'closed' and left > 0 then return {'busy', left} end",
        "",
        "lane_with_unretired_finals_does_not_close",
    ),
    Guard("set_lane", " + redis.call('SCARD', KEYS[4])", "", "lane_with_unretired_finals_does_not_close"),
    Guard(
        "set_lane",
        "if changes then",
        "if true then",
        "lane_state_carries_reason_and_evidence_and_counts_as_one_ask",
    ),
    Guard("set_lane", "  or (said[4] or stop) ~= stop", "", "cause_and_command_stand_beside_the_reason"),
    Guard("set_lane", "if changes and ARGV[10]", "if ARGV[10]", "decision_about_a_lane_rests_on_its_newest_reading"),
    Guard(
        "set_lane",
        "(redis.call('HGET', KEYS[1], 'asks') or '0') ~= ARGV[10]",
        "false",
        "decision_about_a_lane_rests_on_its_newest_reading",
    ),
    Guard("set_lane", "redis.call('HDEL', KEYS[1], 'reason', 'stop')", "", _full("a_lane_be_stopped")),
    Guard(
        "publish",
        "if before and tonumber(before) > tonumber(ARGV[2]) then return 0 end",
        "",
        "late_news_never_overwrites_newer_news_of_a_lane",
    ),
    Guard("publish", "redis.call('HDEL', KEYS[1], '')", "", _full("producers_know_of_it")),
    Guard("publish", "if route ~= ARGV[3] then", "if false then", "readers_of_the_registry_read_what_changed_alone"),
    Guard("publish", "route ~= ARGV[3] then", "true then", "lane_registered_again_is_no_change_of_the_registry"),
    Guard("unpublish", "if gone == 0 then return 0 end", "", "readers_of_the_registry_read_what_changed_alone"),
    Guard("heartbeat", "redis.call('ZREM', KEYS[2], '')", "", _full("workers_stay_alive")),
    Guard("heartbeat", "if redis.call('HGET', KEYS[3], ARGV[1]) ~= told then", "if false then", _TOLD_AGAIN),
    Guard(
        "heartbeat",
        "redis.call('HSTRLEN', KEYS[1], ARGV[1])",
        "string.match(redis.call('HGET', KEYS[3], ARGV[1]) or '', '%d+$')",
        _TOLD_AGAIN,
    ),
    Guard("members", "redis.call('HDEL', KEYS[1], name)", "", "dead_members_are_forgotten_at_once"),
    Guard("members", "if found == 0 then", "if false then", _VERSIONS),
    Guard("members", "if found == tonumber(size) then", "if true then", "worker_of_release_0_1_0_is_read_as_it_says"),
    Guard("members", " or ''", "", "worker_of_release_0_1_0_is_read_as_it_says"),
]

WATCHERS = [
    Guard("check", "if not lane[1] then return {'unknown'} end", "", "check_of_an_unknown_lane_makes_none"),
    Guard(
        "check",
        "if lane[2] == ARGV[1] then return {'asked'} end",
        "",
        "check_wakes_the_owner_and_a_repeat_asks_nothing_more",
    ),
    Guard("check", "redis.call('HDEL', KEYS[1], 'check')", "", _full("a_monitor_be_heard")),
    Guard("fill", FENCE, "", "stale_owner_cannot_fill"),
    Guard(
        "fill",
        "if lane[2] ~= found then return {'rolled_back', lane[2], found} end",
        "",
        "fill_on_another_history_writes_nothing",
    ),
    Guard(
        "fill",
        "if lane[3] == 'quarantined' then return {'refused', 'lane', 'the lane is quarantined'} end",
        "",
        "quarantined_lane_fills_nothing_new",
    ),
    Guard("fill", "== 0 then", "< 2 then", "quarantined_lane_fills_nothing_new"),
    Guard("fill", "not lane[1] or ", "", "fill_never_reaches_the_cursor"),
    Guard("fill", "not below(ARGV[at + 1], lane[1])", "false", "fill_never_reaches_the_cursor"),
    Guard("fill", "if #a ~= #b then return #a < #b end", "", "fill_never_reaches_the_cursor"),
    Guard("fill", "redis.call('HDEL', KEYS[2], '')", "", _full("a_gap_be_filled")),
    Guard("fill", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", REPLAY),
    Guard("keep", FENCE, "", "stale_owner_keeps_nothing"),
    Guard("keep", "redis.call('EXISTS', KEYS[2]) == 1 and ", "", "final_bytes_are_forgotten_with_age"),
    Guard("keep", "bytes > most or ", "", "final_bytes_beyond_their_room_push_the_oldest_out"),
    Guard(
        "keep",
        " or tonumber(string.match(oldest[1], '^%d+')) < since",
        "",
        "final_bytes_are_forgotten_with_age",
    ),
    Guard("keep", "bytes = bytes - #oldest[2][8]", "", "final_bytes_beyond_their_room_push_the_oldest_out"),
    Guard("keep", "redis.call('PEXPIRE', KEYS[2], ARGV[3])", "", "final_bytes_are_forgotten_with_age"),
]

AUDIT = [
    Guard("note", "redis.call('SREM', KEYS[2], '')", "", _full("operators_act")),
    Guard("note", "'MAXLEN', ARGV[2], ", "", "refused_calls_never_push_out_what_was_done"),
    Guard("note", "redis.call('SADD', KEYS[2], ARGV[1])", "", "audit_of_one_tenant_shows_nothing_of_another"),
]

_FULL_OWNER = "owner_over_its_count_or_its_bytes_gets_no_room_and_nothing_changes"
_BACK = "room_comes_back_at_every_end"
QUOTAS = [
    Guard("append", "elseif too_much(ARGV[at + 10]) then", "elseif false then", _FULL_OWNER),
    Guard("append", "if not owner then return nil end", "if not owner then return {0, 0} end", _FULL_OWNER),
    Guard("append", "if most ~= '-' and used[1] >= tonumber(most) then return used end", "", _FULL_OWNER),
    Guard(
        "append", "if most_bytes ~= '-' and used[2] + size > tonumber(most_bytes) then return used end", "", _FULL_OWNER
    ),
    Guard("append", "used[1], used[2] = used[1] + 1, used[2] + size", "", _FULL_OWNER),
    Guard("append", "if not rooms[owner] then", "if true then", _FULL_OWNER),
    Guard("append", "if owner then", "if true then", "append_again_answers_the_same_entry"),
    Guard(
        "append",
        "empty and {} or redis.call",
        "redis.call",
        "empty_queue_owes_no_room_whatever_an_older_release_forgot",
    ),
    Guard("append", " and redis.call('SCARD', KEYS[6]) == 0", "", "what_was_set_aside_keeps_its_room"),
    Guard("room", " and redis.call('SCARD', KEYS[3]) == 0", "", "what_was_set_aside_keeps_its_room"),
    Guard("settle", "if record[6] then shares[#shares + 1] = record[6] end", "", _BACK),
    Guard("settle", "give_back(KEYS[1], shares)", "", _BACK),
    Guard("cancel", "give_back(KEYS[1], {record[6] or nil})", "", _BACK),
    Guard("settle", "redis.call('HINCRBY', lane, 'b:' .. owner, -sum[2])", "", _BACK),
    Guard("cancel", "if left <= 0 then", "if false then", "counts_that_reach_zero_leave_the_lane"),
    Guard(
        "room",
        "if redis.call('XLEN', KEYS[2]) == 0 and redis.call('SCARD', KEYS[3]) == 0 then",
        "if false then",
        "empty_queue_owes_no_room_whatever_an_older_release_forgot",
    ),
    Guard("draw", "if kept[1] then", "if false then", "burst_is_granted_once_to_all_processes_together"),
    Guard(
        "draw",
        "math.min(tonumber(ARGV[3]), math.floor(left))",
        "tonumber(ARGV[3])",
        "burst_is_granted_once_to_all_processes_together",
    ),
    Guard("draw", "left = math.min(burst, ", "left = (", "bucket_fills_with_time_and_never_above_its_burst"),
    Guard(
        "draw",
        "redis.call('PEXPIRE', KEYS[1],",
        "redis.call('GETRANGE', 'x', 1,",
        "bucket_that_is_full_again_is_forgotten",
    ),
]

GUARDS = [*AUDIT, *QUOTAS, *HOMES, *APPEND, *OWNERS, *ATTEMPTS, *ENDS, *LANES, *WATCHERS]
