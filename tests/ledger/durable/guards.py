"""Every guard of the Worker, what replaces it when it is taken out, and the promise that must then break."""

from __future__ import annotations

from typing import NamedTuple


class Guard(NamedTuple):
    file: str
    text: str
    without: str
    promise: str


FENCE = "checkFence(step, fence);"
ARGS_FENCE = "checkFence(step, args.fence);"
CLAIM = "first_claim_wins_and_later_ones_learn_lane_and_life"
FORGET = "claim_swept_while_its_producer_paused_starts_over_cleanly"
HELD = "held_intent_gets_no_attempt_that_nobody_asked_for"
PROVEN = "failed_after_write_ahead_needs_every_effect_proven_dead"
FIRST = "first_attempt_of_a_signed_entry_is_refused"
WAITS = "final_record_waits_for_the_archive_with_its_payload"
COUNT = "acknowledged_records_do_not_count_as_late"
LAGS = "archive_that_lags_too_far_behind_stops_nothing_and_what_went_is_named"
LOST = "backlog_that_no_home_remembers_is_counted_as_lost"
WRONG = "acknowledgement_of_a_live_record_or_another_life_counts_nothing"
OVERRIDE = "override_stands_in_place_of_the_configured_limit_until_it_is_taken_away"
TURNS = "turns_are_granted_one_at_a_time_in_the_order_asked"

HOMES = [
    Guard("home.ts", "home?.expires != null && home.expires <= now ? undefined : home", "home", "homes_expire"),
    Guard(
        "home.ts",
        "if (home === undefined) {\n        put(at, { ...wish, born: at.now }, null",
        "{\n        put(at, { ...wish, born: at.now }, null",
        CLAIM,
    ),
    Guard(
        "home.ts",
        "if (home.fingerprint !== wish.fingerprint) return { word: 'conflict' };",
        "",
        "same_key_with_another_payload_is_a_conflict_that_changes_nothing",
    ),
    Guard(
        "home.ts",
        "if (home.record !== null) return told('final', home);\n    at.sql",
        "at.sql",
        "home_retired_and_key_retried_answers_the_stored_result",
    ),
    Guard(
        "home.ts",
        "if (home.alias_of !== null) return { word: 'alias'",
        "if (false) return { word: 'alias'",
        "alias_answers_with_the_target",
    ),
    Guard(
        "home.ts", "if (home.life !== args.life) return { word: 'conflict' };", "", "move_of_another_life_is_a_conflict"
    ),
    Guard(
        "home.ts",
        "if (home.record !== null) return told('final', home);\n    if (home.lane",
        "if (home.lane",
        "move_of_a_final_key_answers_its_record",
    ),
    Guard("home.ts", "if (home.lane === args.from) {", "if (true) {", "only_the_first_of_two_moves_counts"),
    Guard(
        "home.ts",
        "if (home !== undefined && home.life !== final.life) return false;",
        "",
        "past_of_a_reused_key_never_overwrites_its_new_life",
    ),
    Guard("home.ts", "if (home?.record == null) put", "put", "retire_of_a_record_that_ended_otherwise_changes_nothing"),
    Guard("home.ts", "AND born < ?", "AND ? > 0", "sweep_deletes_claims_that_never_got_a_record"),
    Guard("home.ts", "WHERE slot = ? AND", "WHERE ? >= 0 AND", "sweep_leaves_other_homes_of_its_object_alone"),
    Guard("home.ts", "OFFSET ?`", "OFFSET 0 * ?`", "sweep_goes_past_claims_that_stay"),
    Guard("home.ts", "if (home.record !== null) return false;", "", "forget_deletes_only_the_claim_that_was_read"),
    Guard("home.ts", "if (home.life !== args.life) return false;", "", "forget_deletes_only_the_claim_that_was_read"),
    Guard("home.ts", "if (home.born !== args.born) return false;", "", "forget_deletes_only_the_claim_that_was_read"),
]

ACCEPT = [
    Guard(
        "lane/accept.ts",
        "if (stone !== undefined && stone.expires > now && stone.life === entry.life) return { word: 'retired' };",
        "",
        "append_after_retirement_meets_a_tombstone",
    ),
    Guard(
        "lane/accept.ts", " && stone.life === entry.life)", ")", "key_used_again_after_its_retention_has_another_life"
    ),
    Guard("lane/accept.ts", " && stone.expires > now", "", "tombstones_expire"),
    Guard("lane/accept.ts", "if (record !== undefined) {", "if (false) {", "append_again_answers_the_same_entry"),
    Guard(
        "lane/accept.ts",
        "if (record.life !== entry.life) return { word: 'other_life' };",
        "",
        "record_of_another_life_in_the_lane_is_told_apart",
    ),
    Guard(
        "lane/accept.ts",
        "if (entry.born < now - APPEND_WITHIN_MS) return { word: 'stale' };",
        "",
        "append_of_an_old_claim_is_stale_and_of_a_future_one_ahead",
    ),
    Guard(
        "lane/accept.ts",
        "if (entry.born > now + APPEND_WITHIN_MS) return { word: 'ahead' };",
        "",
        "append_of_an_old_claim_is_stale_and_of_a_future_one_ahead",
    ),
    Guard(
        "lane/accept.ts",
        "lane.state === 'closed' || ",
        "",
        "closed_lane_takes_nothing_and_its_claim_moves",
    ),
    Guard(
        "lane/accept.ts",
        "if (lane.depth >= lane.queue_limit) return { word: 'full', depth: lane.depth };",
        "",
        "full_queue_pushes_back_and_takes_again_after_room",
    ),
    Guard(
        "lane/accept.ts",
        "if (isFull(entry.charge, used)) return",
        "if (false) return",
        "owner_over_its_count_or_its_bytes_gets_no_room_and_nothing_changes",
    ),
    Guard("lane/records.ts", "giveBack(step, record);", "", "room_comes_back_at_every_end"),
    Guard(
        "lane/accept.ts",
        "if (isFinal(record)) return false;\n    const unsigned",
        "const unsigned",
        "cancel_that_comes_after_the_end_changes_nothing",
    ),
    Guard(
        "lane/accept.ts",
        "if (unsigned) {\n        finish",
        "if (record.status === 'queued') {\n        finish",
        "cancel_of_what_was_set_aside_ends_it_at_once",
    ),
    Guard(
        "lane/accept.ts",
        "} else if (record.cancel_requested === 0) {",
        "} else {",
        "cancel_of_an_inflight_intent_asks_its_owner_once",
    ),
    Guard(
        "lane/accept.ts",
        "if (record.status !== 'held') return false;\n    if (attempts",
        "if (attempts",
        "only_a_held_intent_is_resolved",
    ),
    Guard(
        "lane/accept.ts",
        "if (attemptsOf(step, id).length === 0) return false;",
        "",
        "what_is_set_aside_gets_no_attempt_and_no_operators_word",
    ),
    Guard(
        "lane/accept.ts",
        "if (record.hold_reason !== args.reason) return false;",
        "",
        "only_what_is_held_for_its_seal_is_resealed",
    ),
    Guard(
        "lane/accept.ts",
        "attemptsOf(step, record.id).length > 0 ? 'inflight' : 'queued'",
        "'queued'",
        "resealed_intent_that_was_signed_is_in_flight_again",
    ),
    Guard(
        "lane/records.ts",
        "return record?.life === life ? record : undefined;",
        "return record;",
        "settle_of_another_life_or_a_retired_record_is_gone",
    ),
]

OWNERS = [
    Guard(
        "lane/own.ts",
        "if (lane.state === 'closed') return { word: 'closed' };",
        "",
        "lane_nobody_registered_or_closed_is_not_leased",
    ),
    Guard(
        "lane/own.ts",
        "if (lane.schema > SCHEMA) return { word: 'schema' };",
        "",
        "lane_of_a_newer_schema_is_not_leased",
    ),
    Guard("lane/own.ts", "if (args.token !== lane.token) {", "{", "lease_again_with_the_same_token_is_the_same_lease"),
    Guard(
        "lane/own.ts",
        "if (lane.token !== '' && lane.lease_until > now) {",
        "if (false) {",
        "lease_has_one_owner_and_says_who_for_how_long",
    ),
    Guard("lane/own.ts", " && lane.lease_until > now", "", "lease_runs_out_and_the_epoch_grows"),
    Guard("lane/own.ts", "lane.epoch += 1;", "", "lease_runs_out_and_the_epoch_grows"),
    Guard(
        "lane/own.ts", f"{FENCE}\n    lane.lease_until", "lane.lease_until", "renew_of_a_stale_owner_names_the_new_one"
    ),
    Guard("lane/row.ts", "lane.epoch !== fence.epoch || lane.token", "lane.token", "fence_needs_both_epoch_and_token"),
    Guard(
        "lane/row.ts",
        " || lane.token !== fence.token) {\n        throw",
        ") {\n        throw",
        "fence_needs_both_epoch_and_token",
    ),
    Guard(
        "lane/own.ts",
        "return lane.epoch === fence.epoch && lane.left_token === fence.token;",
        "return false;",
        "released_lane_is_free_at_once_and_a_repeat_is_answered_the_same",
    ),
    Guard(
        "lane/own.ts",
        f"{ARGS_FENCE}\n    if (lane.cursor === null) {{",
        "if (lane.cursor === null) {",
        "stale_owner_cannot_set_the_baseline",
    ),
    Guard(
        "lane/own.ts", "} else if (args.operator) {", "} else {", "baseline_is_set_once_and_raised_by_an_operator_only"
    ),
    Guard("lane/own.ts", f"{ARGS_FENCE}\n    if (lane.history_id", "if (lane.history_id", "stale_owner_cannot_vouch"),
    Guard(
        "lane/own.ts",
        "if (lane.history_id === args.stored) lane",
        "lane",
        "vouch_changes_the_history_id_only_from_the_one_that_was_seen",
    ),
    Guard(
        "lane/own.ts",
        f"{FENCE}\n    if (lane.state !== 'active'",
        "if (lane.state !== 'active'",
        "stale_owner_can_not_take_and_parks_nothing",
    ),
    Guard(
        "lane/own.ts",
        "if (lane.state !== 'active' && lane.state !== 'draining') return [];",
        "",
        "take_of_a_paused_or_quarantined_lane_is_empty",
    ),
    Guard(
        "lane/own.ts",
        "WHERE queue.place > ?",
        "WHERE queue.place > 0 * ?",
        "take_again_answers_the_same_until_written_ahead",
    ),
    Guard("lane/own.ts", f"{FENCE}\n    return pending", "return pending", "stale_owner_cannot_read_the_unfinished"),
    Guard("lane/own.ts", f"{ARGS_FENCE}\n    const known", "const known", "stale_owner_cannot_fill"),
    Guard(
        "lane/own.ts",
        "if (lane.archive === null) return;\n    if (sql",
        "if (sql",
        "no_op_of_no_intent_is_forgotten_where_no_archive_is_waited_for",
    ),
    Guard(
        "lane/own.ts",
        "WHERE nonce = ? AND hash = ?', nonce, hash) === undefined) return;",
        "WHERE nonce = ? AND hash = ?', nonce, hash) === null) return;",
        "no_op_of_no_intent_that_landed_waits_for_the_archive_once",
    ),
    Guard("lane/own.ts", "if (fresh.length > 0) checkHistory(step);", "", "fill_on_another_history_writes_nothing"),
    Guard(
        "lane/own.ts",
        "if (fresh.length > 0 && lane.state === 'quarantined') throw",
        "if (false) throw",
        "quarantined_lane_fills_nothing_new",
    ),
    Guard(
        "lane/own.ts",
        "lane.cursor === null || BigInt(attempt.nonce) >= BigInt(lane.cursor)",
        "false",
        "fill_never_reaches_the_cursor",
    ),
    Guard("lane/own.ts", f"{ARGS_FENCE}\n    const before", "const before", "stale_owner_keeps_nothing"),
    Guard(
        "lane/own.ts",
        "while (lane.kept_bytes > args.most_bytes) {",
        "while (false) {",
        "final_bytes_beyond_their_room_push_the_oldest_out",
    ),
    Guard("lane/own.ts", f"{ARGS_FENCE}\n    const record = find", "const record = find", "stale_owner_cannot_hold"),
    Guard("lane/own.ts", "if (record.status !== 'inflight') return false;", "", "only_an_inflight_intent_is_held"),
    Guard(
        "lane/own.ts", f"{ARGS_FENCE}\n    const record = step", "const record = step", "stale_owner_cannot_set_aside"
    ),
    Guard(
        "lane/own.ts", "if (own && record.status !== 'queued') return false;", "", "only_what_is_queued_is_set_aside"
    ),
    Guard(
        "lane/own.ts",
        "if (!own) return false;",
        "if (record === undefined) return false;",
        "setting_aside_an_entry_of_no_record_changes_none",
    ),
    Guard("lane/own.ts", f"{ARGS_FENCE}\n    const last", "const last", "stale_owner_counts_no_breaks"),
    Guard(
        "lane/own.ts", "if (last?.mark === args.mark) return last.count;", "", "break_that_is_told_twice_counts_once"
    ),
    Guard("lane/own.ts", " && now - last.at < args.forget_ms", "", "breaks_long_ago_are_forgotten"),
    Guard("lane/own.ts", f"{FENCE}\n    if (find", "if (find", "stale_owner_cannot_answer_an_operator"),
]

ATTEMPTS = [
    Guard("lane/attempts.ts", ARGS_FENCE, "", "stale_owner_cannot_write_ahead"),
    Guard(
        "lane/attempts.ts",
        "if (batch.length > 0 && batch.every((write) => isRecorded(step, write))) return lane.cursor;",
        "",
        "write_ahead_again_is_recognised_and_changes_nothing",
    ),
    Guard("lane/attempts.ts", "batch.length > 0 && ", "", "empty_write_ahead_still_checks"),
    Guard(
        "lane/attempts.ts",
        "if (find(step, write.id, write.life) === undefined) return false;",
        "",
        "write_ahead_of_another_life_is_not_a_replay",
    ),
    Guard(
        "lane/attempts.ts",
        "checkHistory(step);",
        "",
        "nothing_is_signed_on_a_server_with_another_history_until_somebody_vouches",
    ),
    Guard(
        "lane/attempts.ts",
        "if (!keyless && lane.cursor !== cursor) {",
        "if (false) {",
        "write_ahead_from_another_cursor_is_refused",
    ),
    Guard(
        "lane/attempts.ts",
        "if (oldest[index]?.place !== place(write.position)) throw",
        "if (false) throw",
        "first_attempts_are_a_prefix_of_the_queue",
    ),
    Guard(
        "lane/attempts.ts",
        "if (record === undefined) throw refused(write.id, 'no such record');",
        "if (record === undefined) continue;",
        "retired_record_gets_no_attempt",
    ),
    Guard(
        "lane/attempts.ts",
        "if (seen.has(write.id)) throw refused(write.id, 'is in the batch twice');",
        "",
        "two_attempts_for_one_intent_in_one_batch_are_refused",
    ),
    Guard(
        "lane/attempts.ts",
        "if ((write.purpose === 'given') !== (lane.keyless === 1)) {",
        "if (false) {",
        "keyless_lane_signs_nothing_and_others_are_given_nothing",
    ),
    Guard(
        "lane/attempts.ts",
        "if (lane.state === 'quarantined') throw",
        "if (false) throw",
        "quarantined_lane_signs_nothing_at_all",
    ),
    Guard(
        "lane/attempts.ts",
        "if (lane.state === 'paused' && firsts.length > 0) throw",
        "if (false) throw",
        "paused_lane_signs_no_first_attempts_but_finishes_what_began",
    ),
    Guard(
        "lane/attempts.ts", " && firsts.length > 0", "", "paused_lane_signs_no_first_attempts_but_finishes_what_began"
    ),
    Guard(
        "lane/attempts.ts",
        "} else if (status !== 'inflight' && (status !== 'held' || write.purpose === 'replace')) {",
        "} else if (false) {",
        "queued_entry_gets_only_a_first_attempt",
    ),
    Guard("lane/attempts.ts", " || write.purpose === 'replace')) {", ")) {", "held_intent_is_not_replaced"),
    Guard("lane/attempts.ts", "if (status === 'held' && record.directive", "if (false && record.directive", HELD),
    Guard(
        "lane/attempts.ts",
        "record.directive === null && record",
        "record",
        "held_intent_may_be_resigned_and_is_inflight_again",
    ),
    Guard(
        "lane/attempts.ts",
        "if (write.purpose === 'resign' && alive.length > 0) {",
        "if (false) {",
        "resign_needs_a_proof_for_every_live_attempt",
    ),
    Guard(
        "lane/attempts.ts", "!(nameOf(attempt) in write.deaths)", "true", "resign_needs_a_proof_for_every_live_attempt"
    ),
    Guard(
        "lane/attempts.ts",
        "if (write.purpose === 'replace' && !alive.some(",
        "if (false && !alive.some(",
        "replacement_of_a_dead_nonce_is_refused",
    ),
    Guard(
        "lane/attempts.ts",
        "if (write.purpose === 'given') return top;",
        "",
        "given_bytes_are_written_ahead_whatever_their_number",
    ),
    Guard(
        "lane/attempts.ts",
        "if (shares && (write.purpose === 'replace' || write.purpose === 'noop')) return top;",
        "",
        "replacement_shares_the_nonce_of_a_live_attempt",
    ),
    Guard("lane/attempts.ts", "if (nonce < top) throw", "if (false) throw", "nonces_of_a_batch_grow_from_the_cursor"),
    Guard(
        "lane/attempts.ts",
        "if (write.purpose === 'noop') {",
        "if (false) {",
        "noop_is_kept_on_the_record_it_kills_and_leaves_its_state",
    ),
    Guard("lane/attempts.ts", "(write.counted ? 1 : 0)", "1", "resign_needs_a_proof_for_every_live_attempt"),
    Guard(
        "lane/attempts.ts",
        "if (before !== 'inflight') event",
        "event",
        "replacement_shares_the_nonce_of_a_live_attempt",
    ),
    Guard(
        "lane/attempts.ts",
        "if (last !== undefined) lane.signed_upto",
        "if (false) lane.signed_upto",
        "take_again_answers_the_same_until_written_ahead",
    ),
]

ENDS = [
    Guard("lane/end.ts", ARGS_FENCE, "", "stale_owner_cannot_settle"),
    Guard(
        "lane/end.ts",
        "if (args.batch.some((item) => item.tx_hash === null)) checkHistory(step);",
        "",
        "an_end_that_no_chain_shows_waits_while_the_history_is_another",
    ),
    Guard(
        "lane/end.ts",
        "if (isFinal(record)) return",
        "if (false) return",
        "settle_again_is_already_and_another_end_is_a_conflict",
    ),
    Guard(
        "lane/end.ts",
        "status === item.status ? 'already' : 'conflict'",
        "'already'",
        "settle_again_is_already_and_another_end_is_a_conflict",
    ),
    Guard(
        "lane/end.ts",
        "if (!isProven(step, record, item)) return { word: 'refused', status };",
        "",
        "done_names_an_attempt_that_was_recorded",
    ),
    Guard("lane/end.ts", "attempt.purpose !== 'noop'", "true", "noop_is_never_judged_as_the_outcome"),
    Guard(
        "lane/end.ts",
        "if (item.status === 'cancelled') return false;",
        "",
        "cancelled_never_names_an_effect_that_landed",
    ),
    Guard("lane/end.ts", "if (item.status === 'done') return false;", "", "done_names_an_attempt_that_was_recorded"),
    Guard("lane/end.ts", "attempt.proof !== null || nameOf(attempt) in item.deaths", "true", PROVEN),
    Guard("lane/own.ts", "BigInt(one) > BigInt(other)", "one > other", "landed_only_grows_and_compares_as_a_number"),
    Guard(
        "lane/end.ts",
        "lane.landed === null ? args.landed : higher(lane.landed, args.landed)",
        "args.landed",
        "landed_only_grows_and_compares_as_a_number",
    ),
    Guard(
        "lane/end.ts",
        "AND id NOT IN (SELECT id FROM shelf WHERE at > ?)",
        "AND ? > 0",
        "what_is_shelved_stays_final_and_is_not_offered_again",
    ),
    Guard(
        "lane/end.ts",
        "if (record.status !== status) continue;",
        "",
        "retire_of_a_record_that_ended_otherwise_changes_nothing",
    ),
    Guard(
        "lane/records.ts",
        "dequeue(step, record.place) ?? record.payload",
        "record.payload",
        "settle_stores_the_outcome_once_and_leaves_the_queue",
    ),
    Guard(
        "lane/records.ts", "directive = NULL, payload", "payload", "end_of_an_intent_takes_the_operators_word_with_it"
    ),
]

LANES = [
    Guard("lane/accept.ts", "if (unsigned) checkHistory(step);", "", "cancel_waits_while_the_history_is_another"),
    Guard(
        "lane/manage.ts",
        "if (lane.state === 'closed') throw new Refusal('closed');",
        "",
        "closed_lane_is_closed_for_ever",
    ),
    Guard(
        "lane/manage.ts",
        "if ((lane.keyless === 1) !== spec.keyless) throw",
        "if (false) throw",
        "address_is_of_one_sort_for_ever",
    ),
    Guard("lane/manage.ts", "if (fence !== null) checkFence(step, fence);", "", "stale_owner_cannot_change_the_lane"),
    Guard(
        "lane/manage.ts",
        "if (!(SOURCES[told.state]?.includes(lane.state) ?? false)) throw",
        "if (false) throw",
        "lane_states_follow_the_table",
    ),
    Guard(
        "lane/manage.ts",
        "if (told.state === 'closed' && left > 0) throw",
        "if (false) throw",
        "lane_with_unretired_finals_does_not_close",
    ),
    Guard(
        "lane/manage.ts",
        "if (asks !== null && asks !== lane.asks) throw",
        "if (false) throw",
        "decision_about_a_lane_rests_on_its_newest_reading",
    ),
    Guard(
        "lane/manage.ts",
        "if (step.lane.asked !== asked) step",
        "step",
        "check_wakes_the_owner_and_a_repeat_asks_nothing_more",
    ),
    Guard(
        "lane/manage.ts",
        "if (why !== '' || lane.keyless",
        "if (lane.keyless",
        "lane_with_a_reserved_number_is_not_deleted",
    ),
    Guard(
        "lane/manage.ts",
        "lane.keyless !== 1 || lane.state === 'closed') return told;",
        "false) return told;",
        "lane_that_signs_or_is_closed_is_never_deleted",
    ),
    Guard(
        "registry/lanes.ts", "WHERE excluded.revision >= revision", "", "older_news_of_a_lane_never_overwrites_newer"
    ),
    Guard(
        "registry/lanes.ts",
        "if (sql.count(made, owner) >= most) return false;",
        "",
        "caller_brings_only_so_many_lanes_into_being",
    ),
    Guard("registry/lanes.ts", "WHERE until > ?", "WHERE 0 < ?", "members_are_those_whose_heartbeat_is_fresh"),
    Guard(
        "registry/rates.ts",
        "const left = Math.min(burst, refilled);",
        "const left = refilled;",
        "bucket_fills_with_time_and_never_above_its_burst",
    ),
    Guard(
        "registry/rates.ts",
        "Math.min(want, Math.floor(left))",
        "want",
        "burst_is_granted_once_to_all_processes_together",
    ),
    Guard(
        "registry/audit.ts",
        "tenant === null ? '' : 'WHERE tenant = ?'",
        "tenant === null ? '' : 'WHERE ? <> 0'",
        "audit_of_one_tenant_shows_nothing_of_another",
    ),
    Guard(
        "registry/audit.ts",
        "WHERE tenant = ? AND is_refused = ?",
        "WHERE tenant = ? AND ? < 2",
        "refused_calls_never_push_out_what_was_done",
    ),
]

PARKED = "idle_lane_is_parked_and_nobody_serves_it"
BACK = "parked_lane_hands_out_nothing_until_it_is_registered_again"
MATTERS = "lane_with_a_number_or_a_record_that_matters_is_not_parked"
STOPPED = "lane_that_an_operator_stopped_or_that_signs_is_not_parked"
AGAIN = "parking_again_answers_the_same_and_a_stale_owner_parks_nothing"
LAST = "last_number_tells_how_long_a_lane_is_idle"
USED = "lane_that_was_used_a_while_ago_is_not_parked_yet"
COUNTS = "parked_lane_counts_for_whoever_made_it_and_for_nobody_else"

PARKING = [
    Guard("lane/own.ts", "if (lane.parked === 1) return { word: 'unknown' };", "", PARKED),
    Guard("lane/own.ts", "lane.parked === 1 && lane.epoch === fence.epoch", "lane.epoch === fence.epoch", AGAIN),
    Guard("lane/own.ts", "if (again) return { left: 0, lane: view(step) };", "", AGAIN),
    Guard("lane/own.ts", f"{FENCE}\n    expire(step);", "expire(step);", AGAIN),
    Guard("lane/own.ts", f"{FENCE}\n    expire(step);", FENCE, PARKED),
    Guard("lane/own.ts", "sql.one('SELECT 1 AS n FROM held') !== undefined || ", "", MATTERS),
    Guard("lane/own.ts", " || obstacle(step) !== ''", "", MATTERS),
    Guard("lane/own.ts", "if (busy || lane.keyless !== 1 || ", "if (busy || ", STOPPED),
    Guard("lane/own.ts", " || lane.state !== 'active') return { left", ") return { left", STOPPED),
    Guard("lane/own.ts", "Math.max(1, idle_ms)", "idle_ms", AGAIN),
    Guard("lane/own.ts", "if (left > 0) return { left };", "", USED),
    Guard("lane/own.ts", "release(step, { fence });", "", PARKED),
    Guard("lane/numbers.ts", "if (step.lane.parked === 1) throw new Refusal('not_found');", "", BACK),
    Guard("lane/numbers.ts", "lane.used = now;", "", LAST),
    Guard("lane/accept.ts", " || lane.parked === 1", "", BACK),
    Guard("lane/manage.ts", "lane.parked = 0;\n    lane.used = step.now;", "lane.used = step.now;", BACK),
    Guard("lane/manage.ts", "lane.used = step.now;", "lane.used = 0;", "parked_lane_is_still_known"),
    Guard("lane/manage.ts", "        lane.parked = 0;\n", "", "operators_word_brings_a_parked_lane_back"),
    Guard("registry/lanes.ts", "AND parked = 1', lane)", "AND parked = 2', lane)", COUNTS),
    Guard("registry/lanes.ts", ", parked = excluded.parked WHERE", " WHERE", PARKED),
    Guard("registry/lanes.ts", "FROM routes WHERE parked = 0", "FROM routes", PARKED),
    Guard("registry/lanes.ts", "FROM routes WHERE parked = 1 ORDER", "FROM routes ORDER", PARKED),
]

NUMBERS = [
    Guard(
        "lane/numbers.ts",
        "if (held?.nonce !== use.nonce) return 'unreserved';",
        "if (held === undefined) return 'unreserved';",
        "bytes_without_their_own_reservation_are_refused",
    ),
    Guard(
        "lane/numbers.ts",
        "if (held.state !== 'reserved' && held.state !== 'sent') return 'unreserved';",
        "",
        "bytes_without_their_own_reservation_are_refused",
    ),
    Guard(
        "lane/numbers.ts",
        "use === null ? null : 'unreserved'",
        "null",
        "reservation_means_nothing_to_a_lane_that_signs",
    ),
    Guard(
        "lane/numbers.ts",
        "if (isLanded(step, use.nonce)) return 'used';",
        "",
        "what_was_sent_is_replaced_until_it_is_final",
    ),
    Guard(
        "lane/numbers.ts",
        "held.state === 'reserved' && isSpent(step, use.nonce) ? 'used' : null",
        "null",
        "bytes_at_a_number_the_chain_used_are_refused",
    ),
    Guard(
        "lane/numbers.ts",
        "if (held.state === 'reserved') return { word: 'reserved'",
        "if (false) return { word: 'reserved'",
        "same_token_gets_the_same_number_again",
    ),
    Guard(
        "lane/numbers.ts",
        "if (held !== undefined) {\n        if (held.state === 'reserved')",
        "if (false) {\n        if (held.state === 'reserved')",
        "same_token_gets_the_same_number_again",
    ),
    Guard(
        "lane/numbers.ts",
        "if (lane.cursor === null && wish.seed === null) return { word: 'cold' };",
        "",
        "cold_lane_asks_for_the_chains_count_first",
    ),
    Guard(
        "lane/numbers.ts",
        "checkKeyless(step);\n    checkHistory",
        "checkHistory",
        "lane_that_signs_hands_out_no_numbers",
    ),
    Guard("lane/numbers.ts", "checkHistory(step);", "", "nothing_is_handed_out_on_a_server_with_another_history"),
    Guard(
        "lane/numbers.ts",
        "return state === 'active' || state === 'paused' ? null : state;",
        "return null;",
        "stopped_lane_hands_out_nothing",
    ),
    Guard(
        "lane/numbers.ts",
        "held.length >= cap.most && !held",
        "false && !held",
        "owner_has_only_so_many_unsent_numbers_and_others_go_on",
    ),
    Guard("lane/numbers.ts", "AND ticket < ?", "AND 0 * ? > 1", TURNS),
    Guard("lane/numbers.ts", "(lane.turn === '' ? 0 : 1)", "0", TURNS),
    Guard("lane/numbers.ts", "lane.turn_fence += 1;", "", TURNS),
    Guard(
        "lane/numbers.ts",
        "if (unlock && lane.turn !== token) return { word: 'over' };",
        "",
        "reservation_that_is_no_turn_is_not_unlocked",
    ),
    Guard(
        "lane/numbers.ts",
        "if (held.state === 'sent') {\n        if (unlock)",
        "if (false) {\n        if (unlock)",
        "number_that_may_have_been_sent_is_never_recycled",
    ),
    Guard("lane/numbers.ts", "if (unlock) lane.turn = '';", "", "turn_that_ends_after_a_send_keeps_its_number"),
    Guard(
        "lane/numbers.ts",
        "if (lane.turn !== '' && lane.turn_until <= now) lane.turn = '';",
        "",
        "turn_of_a_sender_that_never_unlocks_ends",
    ),
    Guard(
        "lane/numbers.ts",
        "held.state === 'sent' && !isLanded(step, held.nonce)) {",
        "false) {",
        "number_that_may_have_been_sent_never_expires",
    ),
    Guard("lane/numbers.ts", "checkFence(step, args.fence);", "", "stale_owner_cannot_reclaim_numbers"),
    Guard(
        "lane/numbers.ts",
        "if (cursor < count) {",
        "if (false) {",
        "higher_count_of_the_chain_raises_the_counter_and_is_told",
    ),
    Guard(
        "lane/numbers.ts",
        "if (cursor < count) {",
        "if (cursor !== count) {",
        "stale_count_of_the_chain_never_lowers_the_counter",
    ),
    Guard(
        "lane/numbers.ts",
        "if (!isSpent(step, nonce)) return { nonce",
        "return { nonce",
        "number_the_chain_used_is_not_reused",
    ),
    Guard(
        "lane/numbers.ts",
        "return nonce.padStart(DIGITS, '0');",
        "return nonce;",
        "numbers_of_other_lengths_are_reused_in_their_order",
    ),
    Guard(
        "lane/numbers.ts",
        "if (step.lane.turn === held.token) step",
        "step",
        "recycle_of_one_leaves_the_turn_of_another",
    ),
    Guard(
        "lane/numbers.ts",
        "if (sql.one(live, nonce) !== undefined) continue;",
        "",
        "numbers_a_reorg_took_back_are_reclaimed_on_an_operators_word",
    ),
]

BUDGETS = [
    Guard(
        "registry/budgets.ts",
        "if (sql.one('SELECT 1 AS n FROM ended",
        "if (false && sql.one('SELECT 1 AS n FROM ended",
        "life_that_was_corrected_is_not_charged_again",
    ),
    Guard(
        "registry/budgets.ts",
        "if (args.born < now - APPEND_WITHIN_MS) return { word: 'stale' };",
        "",
        "charge_of_an_old_claim_is_stale_and_of_a_future_one_ahead",
    ),
    Guard(
        "registry/budgets.ts",
        "if (args.born > now + APPEND_WITHIN_MS) return { word: 'ahead' };",
        "",
        "charge_of_an_old_claim_is_stale_and_of_a_future_one_ahead",
    ),
    Guard(
        "registry/budgets.ts",
        "if (entry === undefined) {\n        if (args.born",
        "{\n        if (args.born",
        "charge_that_is_repeated_is_neither_checked_nor_counted_again",
    ),
    Guard(
        "registry/budgets.ts",
        "if (book.open + costs + args.units > (book.override ?? budget.limit)) {",
        "if (false) {",
        "budget_holds_open_charges_and_costs_together",
    ),
    Guard("registry/budgets.ts", "book.open + costs +", "costs +", "budget_holds_open_charges_and_costs_together"),
    Guard("registry/budgets.ts", "book.open + costs +", "book.open +", "budget_holds_open_charges_and_costs_together"),
    Guard("registry/budgets.ts", "book.override ?? budget", "budget", OVERRIDE),
    Guard(
        "registry/budgets.ts",
        "if (lost) return { word: 'moved', usage: usageOf(at, budget.name) };",
        "",
        "budgets_of_a_restored_backup_are_rebuilt_before_they_are_charged",
    ),
    Guard(
        "registry/budgets.ts",
        "if (entry?.turn !== turn) return false;",
        "if (entry === undefined) return false;",
        "uncharge_takes_back_only_what_nobody_charged_again",
    ),
    Guard(
        "registry/budgets.ts",
        "if (args.units > 0 && bucket >= oldestBucket(args, now)) {",
        "if (false) {",
        "retired_intent_is_booked_at_what_it_cost_in_all_of_its_budgets",
    ),
    Guard(
        "registry/budgets.ts",
        "if (book.override !== args.limit && book.override !== args.expected)",
        "if (false)",
        OVERRIDE,
    ),
    Guard(
        "registry/budgets.ts",
        "if (found !== at.found) return false;",
        "",
        "budgets_of_a_restored_backup_are_rebuilt_before_they_are_charged",
    ),
    Guard(
        "registry/sessions.ts",
        "if (code === undefined || code.ends <= now) return null;",
        "if (code === undefined) return null;",
        "code_that_is_too_old_is_refused",
    ),
    Guard(
        "registry/sessions.ts",
        "code === undefined || code.ends",
        "code !== undefined && code.ends",
        "code_that_was_used_is_refused",
    ),
    Guard(
        "registry/sessions.ts",
        "if (known !== undefined) return known;",
        "",
        "opening_that_is_repeated_answers_the_same_session",
    ),
    Guard("registry/sessions.ts", "AND ends > ?", "AND 0 < ?", "session_ends_by_itself"),
    Guard(
        "registry/sessions.ts",
        "if (many < keep) return;",
        "return;",
        "codes_and_sessions_are_bounded_and_the_next_to_end_goes_first",
    ),
    Guard(
        "lane/manage.ts",
        "(place / 1000, life) < (?3, ?4)",
        "(?3, ?4) <> (0, 0)",
        "list_goes_on_after_a_mark_whatever_ended_or_came_since",
    ),
    Guard(
        "object.ts",
        "if (ROLES.indexOf(role) < ROLES.indexOf(by)) throw",
        "if (false) throw",
        "producers_secret_owns_nothing",
    ),
    Guard(
        "lane/index.ts",
        "if (operation.once === true) this.once(request, now);",
        "",
        "operators_word_counts_once_from_each_request",
    ),
    Guard("auth.ts", "if (Math.abs(now - parseInt(time, 10)) > VALID_MS) return null;", "", "old_request_is_refused"),
]

ARCHIVES = [
    Guard("lane/end.ts", "if (spare <= 0) continue;", "", WAITS),
    Guard("lane/end.ts", "if (spare <= 0) continue;", "continue;", LAGS),
    Guard("lane/end.ts", "            spare -= 1;", "", LAGS),
    Guard("lane/end.ts", "lane.unretired - archived - lane.archive", "lane.unretired - lane.archive", COUNT),
    Guard(
        "lane/end.ts",
        "lane.archive !== null && record.archived === 0",
        "lane.archive !== null",
        "acknowledged_records_do_not_count_as_late",
    ),
    Guard("lane/end.ts", "waiting ? 1 : 0", "0", WAITS),
    Guard("lane/end.ts", "lane.unretired <= lane.archive", "true", LAGS),
    Guard("lane/end.ts", "if (!isFinal(record)) return false;", "", WRONG),
    Guard(
        "lane/end.ts",
        "if (record.archived === 1) return false;",
        "",
        "acknowledged_record_is_retired_and_asked_about_no_more",
    ),
    Guard("lane/end.ts", "archived = 1, payload = NULL", "archived = 1", "acknowledged_record_keeps_no_payload"),
    Guard("lane/end.ts", "if (max_lag === null) {", "if (false) {", "archive_that_is_taken_away_lets_everything_go"),
    Guard("lane/end.ts", "forgetGone(step, keep_ms);", "", LOST),
    Guard(
        "lane/records.ts",
        "lane.archive === null ? null : payload",
        "payload",
        "no_payload_stays_where_no_archive_is_waited_for",
    ),
    Guard("lane/records.ts", "lane.archive === null ? null : payload", "null", WAITS),
    Guard(
        "lane/numbers.ts",
        "if (sql.one('SELECT 1 AS n FROM backlog') !== undefined) return 'records';",
        "",
        "keyless_lane_with_a_backlog_is_not_deleted",
    ),
]

BOTH = "lane_is_resident_or_external_and_never_both"
START = "every_start_of_a_resident_takes_the_lane_from_the_one_before"
SLEEPS = "resident_sleeps_only_when_nothing_came_meanwhile"
OUTSIDE = "nobody_from_outside_does_what_a_resident_does"
CLOSED = "closed_lane_is_adopted_by_nobody_and_counters_outlive_starts"
SHELF = "what_cannot_go_home_wakes_a_resident_once_an_hour"
RESIDENT = "lane/resident.ts"

RESIDENTS = [
    Guard("lane/own.ts", "if (lane.resident === 1) return { word: 'held'", "if (false) return { word: 'held'", BOTH),
    Guard(
        "lane/manage.ts",
        "if ((lane.resident === 1) !== (spec.resident === true)) throw new Refusal('other_sort');",
        "",
        BOTH,
    ),
    Guard("lane/manage.ts", "spec.resident === true ? 1 : 0,", "0,", START),
    Guard("lane/index.ts", "if (spec.resident === true) allow(role, 'resident');", "", BOTH),
    Guard(RESIDENT, "if (lane.resident !== 1) return { word: 'external' };", "", BOTH),
    Guard(RESIDENT, "if (lane.state === 'closed') return { word: 'closed' };", "", CLOSED),
    Guard(RESIDENT, "if (lane.token !== token) lane.epoch += 1;", "", START),
    Guard(RESIDENT, "if (lane.token !== token) lane.epoch += 1;", "lane.epoch += 1;", START),
    Guard(RESIDENT, "lane.token = token;", "", START),
    Guard(RESIDENT, f"{FENCE}\n    return {{ lane: view", "return { lane: view", START),
    Guard(RESIDENT, f"{FENCE}\n    if (after_ms", "if (after_ms", START),
    Guard(RESIDENT, f"{FENCE}\n    step.lane.sends", "step.lane.sends", START),
    Guard(RESIDENT, "if (after_ms !== null) return now + after_ms;", "", SLEEPS),
    Guard(RESIDENT, "(works && lane.queued > 0) ||", "", SLEEPS),
    Guard(RESIDENT, "(works && lane.queued > 0)", "(lane.queued > 0)", SLEEPS),
    Guard(RESIDENT, "if (lane.unretired === 0) return null;", "return null;", SLEEPS),
    Guard(RESIDENT, "if (lane.unretired === 0) return null;", "", SLEEPS),
    Guard(RESIDENT, "lane.unretired > shelf.n", "lane.unretired > 0", SHELF),
    Guard(RESIDENT, "lane.unretired > shelf.n", "false", SHELF),
    Guard(RESIDENT, "if (invalid_nonce) step.lane", "step.lane", CLOSED),
    Guard("lane/operations.ts", "adopt: { by: 'resident'", "adopt: { by: 'owner'", OUTSIDE),
    Guard("lane/operations.ts", "look: { by: 'resident'", "look: { by: 'owner'", OUTSIDE),
    Guard("lane/operations.ts", "rest: { by: 'resident'", "rest: { by: 'owner'", OUTSIDE),
    Guard("lane/operations.ts", "count: { by: 'resident'", "count: { by: 'owner'", OUTSIDE),
]

GUARDS = [*RESIDENTS, *ARCHIVES, *BUDGETS, *HOMES, *ACCEPT, *OWNERS, *ATTEMPTS, *ENDS, *LANES, *NUMBERS, *PARKING]
