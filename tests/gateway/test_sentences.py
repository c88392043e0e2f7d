"""Every sentence of the three source documents (pending pool, nonce ordering, mempool) with the tests that hold it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
SENTENCES = {
    # -- the pending pool
    "latest is the chain's count, also in a burst": "test_pending_is_the_contiguous_run",
    "pending is the contiguous run": "test_pending_is_the_contiguous_run run_is_the_first_missing_nonce",
    "pending is greater while something is under way": (
        "test_pending_is_greater_while_one_is_under_way_and_the_next_goes_before_its_receipt"
    ),
    "and equal after it was mined, reverted or refused": (
        "test_after_a_transaction_reverted_pending_equals_latest "
        "test_the_node_decides_and_pending_falls_back_to_the_chain"
    ),
    "switched off, both are proxied": "test_ordering_without_pool_proxies_pending_and_txpool",
    "a nonce below the minimum fails in every state": "nonce_below_the_count_is_low_in_every_state",
    "recorded before it is submitted": "test_an_instance_killed_at_any_moment_loses_nothing",
    "a failure to save is an error and nothing is submitted": "test_refuse_accepts_nothing_and_says_so",
    "removed when it was seen processed": "test_a_gap_waits_and_fills totals_return_to_zero",
    "a time-out is looked up, the hash answered, the bytes kept": (
        "test_a_send_that_hangs_is_looked_up_and_its_successors_follow maybe_waits_and_holds_back_what_follows"
    ),
    "a terminal error removes it and is told, each verdict": (
        "test_a_refusal_of_the_node_is_told_and_removes_the_transaction test_every_answer_of_a_node_has_a_fate"
    ),
    "asynchronous: the hash before the node's word": "test_async_answers_before_the_node_does",
    "gaps are not buffered (forward), or wait (hold)": (
        "test_forwarded_gaps_are_sent_in_order_of_arrival_and_sent_again_by_their_caller test_a_gap_waits_and_fills"
    ),
    "counts are never cached: two instances agree": "test_two_instances_share_the_order",
    "memory: lower case": "test_pending_is_greater_while_one_is_under_way_and_the_next_goes_before_its_receipt",
    "memory: unshared, gone with the process": "test_memory_is_not_shared_and_ends_with_the_process",
    "Redis: each step is atomic": "test_both_backends_answer_the_same_for_10_000_steps_and_the_invariants_hold",
    "Redis: remove all touches its own prefix only": "test_mempool_drop_all_touches_its_own_prefix_only",
    "without Redis it falls back, at the start and midway": (
        "test_forward_starts_without_the_store_and_finds_it_later "
        "test_forward_keeps_this_processs_order_and_pending_never_falls"
    ),
    "duplicates count once": "same_bytes_twice_are_known_in_every_state test_the_same_bytes_twice",
    "removing the unknown does nothing": "unknown_things_are_none",
    "size, type, gas and account are checked": (
        "test_a_transaction_that_no_node_takes_is_refused_in_geths_words "
        "test_types_that_are_not_taken_and_bytes_of_no_chain"
    ),
    # -- nonce ordering
    "nothing is awaited before the lock": "test_the_first_step_of_a_send_is_admit_and_garbage_costs_none",
    "first in, first out per sender": (
        "test_a_burst_that_the_strict_node_refuses_directly_goes_through_in_order "
        "arrival_order_sends_gaps_in_the_order_they_came"
    ),
    "senders are independent": (
        "test_senders_do_not_wait_for_each_other one_sender_has_one_under_way_and_others_go_beside_it"
    ),
    "several instances keep one order": "test_two_instances_share_the_order",
    "released after the submission, not after the receipt": (
        "test_pending_is_greater_while_one_is_under_way_and_the_next_goes_before_its_receipt"
    ),
    "held for a time at most, from the take on, fresh for each": (
        "test_a_hundred_wait_while_the_first_hangs_and_each_gets_its_own_time "
        "late_holder_is_taken_over_at_its_deadline_and_not_before "
        "grant_is_of_the_same_bytes_with_a_fresh_deadline_for_each"
    ),
    "waiting has no time-out": "test_a_hundred_wait_while_the_first_hangs_and_each_gets_its_own_time",
    "memory evicts idle senders only, the longest idle first": (
        "test_a_thousand_and_one_senders_with_transactions_are_all_kept test_the_longest_idle_sender_is_forgotten_first"
    ),
    "FLUSHALL: no hang, no wrong order, callers are told": (
        "test_after_a_flush_nothing_hangs_and_nothing_is_out_of_order test_every_promise_of_the_mempool_holds "
        "new_store_is_quiet_for_a_while"
    ),
    "only the holder releases; late, foreign and double releases do nothing": (
        "done_of_a_stale_holder_changes_nothing done_by_somebody_else_changes_nothing done_twice_is_done_once"
    ),
    "an error of a check releases and stays itself": (
        "refused_sender_leaves_nothing test_a_transaction_that_no_node_takes_is_refused_in_geths_words"
    ),
    "fail-open keeps the local order, says so, and recovers": (
        "test_forward_keeps_this_processs_order_and_pending_never_falls "
        "test_what_waits_in_memory_reaches_the_store_also_when_the_node_is_silent_at_first "
        "test_a_store_that_fails_again_while_it_comes_back_is_found_later"
    ),
    "a crash of the holder frees its sender": (
        "test_an_instance_killed_at_any_moment_loses_nothing dead_holder_is_taken_over_after_its_last_heartbeat"
    ),
    "debug: times and queue lengths; trace: join, grant, wake": (
        "test_the_log_tells_times_and_queues_and_in_detail_each_step"
    ),
    "error: a store that fails, once per outage": "test_forward_keeps_this_processs_order_and_pending_never_falls",
    "metrics: hold time, queue, failures, take-overs": (
        "test_times_of_holds_and_of_waiting_are_metrics test_forward_keeps_this_processs_order_and_pending_never_falls"
    ),
    "both features can be switched separately": (
        "test_pool_without_ordering_records_and_sends_on_arrival "
        "test_ordering_without_pool_proxies_pending_and_txpool "
        "test_without_both_bytes_are_checked_and_passed_on"
    ),
    "the older variables are read": "test_the_older_relays_variables_count_where_the_file_says_nothing",
    # -- the mempool
    "the highest price of a chain goes first": "dearest_head_is_sent_first_and_the_earliest_of_equals",
    "one transaction of a sender at a time": "one_sender_has_one_under_way_and_others_go_beside_it",
    "the nonce equals the count, from 0": "nonces_give_the_order_not_arrival",
    "map, chain queue, pending and gapped queues agree": (
        "test_both_backends_answer_the_same_for_10_000_steps_and_the_invariants_hold"
    ),
    "moves when it is ready and a place is free": ("executors_bound_all_instances_together head_left_behind_rings"),
    "rule 1, unique hash": "same_bytes_twice_are_known_in_every_state",
    "rule 2, known chain": "test_a_transaction_that_no_node_takes_is_refused_in_geths_words",
    "rule 3, the nonce that is processing": "nonce_that_is_processing_is_refused",
    "rule 4, not below the count": "nonce_below_the_count_is_low_in_every_state",
    "rule 5, a replacement is dearer": "replacement_pays_the_bump",
    "rule 6, high watermark": "gap_between_watermark_and_capacity_must_beat_a_gapped_one",
    "rule 7, capacity": "full_mempool_of_gaps_still_asks_for_a_price test_a_full_mempool_and_a_full_account",
}
"""The tables of states (`promises/states.py`) and of boundaries (`promises/boundary.py`) are rows, not functions."""


def defined() -> set[str]:
    folders = (TESTS / "gateway", TESTS / "mempool", TESTS / "sim" / "mempool", TESTS / "settings")
    trees = (ast.parse(file.read_text()) for folder in folders for file in folder.rglob("*.py"))
    return {
        node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_has_its_tests(sentence):
    missing = set(SENTENCES[sentence].split()) - defined()
    assert not missing
