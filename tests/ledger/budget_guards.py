"""The guards of budgets."""

from __future__ import annotations

from tests.ledger.guards import Guard

HOLDS = "budget_holds_open_charges_and_costs_together"
AGAIN = "charge_that_is_repeated_is_neither_checked_nor_counted_again"
OLD = "charge_of_an_old_claim_is_stale_and_of_a_future_one_ahead"
ENDED = "life_that_was_corrected_is_not_charged_again"
SPAN = "costs_leave_with_their_bucket_and_the_oldest_counts_whole"
OVERRIDE = "override_stands_in_place_of_the_configured_limit_until_it_is_taken_away"
WRITES = "replay_of_every_charge_and_correction_writes"
IDLE = "idle_budget_is_forgotten_and_one_in_use_or_with_an_override_is_not"
MOVED = "budget_of_another_history_refuses_until_it_is_rebuilt"
LOWERS = "rebuilding_lowers_nothing_that_stands"
VOUCHED = "store_that_vouches_for_its_writes_goes_on_by_itself"
DUE = "open_charge_is_looked_at_in_time_and_dropped_by_its_turn"
FULL = "full_server_lets_charges_be_corrected_and_taken_back"
EXACT = "sums_near_2_to_the_53_are_exact"
TWICE = "correction_that_is_repeated_changes_nothing"
THEIRS = "uncharge_takes_back_only_what_nobody_charged_again"

BUDGETS = [
    Guard("charge", "then return {'ended'} end", "then end", ENDED),
    Guard("charge", "fresh = fresh or not b.entry", "fresh = true", AGAIN),
    Guard("charge", "if fresh and born < now - ARGV[1] then return {'stale'} end", "", OLD),
    Guard("charge", "if fresh and born > now + ARGV[1] then return {'ahead'} end", "", OLD),
    Guard("charge", "    if not b.entry then\n      if moved", "    if true then\n      if moved", AGAIN),
    Guard("charge", "    if not b.entry then\n      redis", "    if true then\n      redis", AGAIN),
    Guard("charge", "if moved(b.history, vouched) then return", "if false then return", MOVED),
    Guard("charge", "number(kept[1]) + sum + units", "sum + units", HOLDS),
    Guard("charge", "number(kept[1]) + sum + units", "number(kept[1]) + units", HOLDS),
    Guard("charge", "number(kept[2] or b.limit)", "number(b.limit)", OVERRIDE),
    Guard("charge", "oldest(b.span, b.width, now)", "oldest(b.span, b.width, now) + 1", SPAN),
    Guard(
        "charge",
        "for _, bucket in ipairs(b.old) do",
        "for _, bucket in ipairs({}) do",
        "costs_of_before_the_span_leave_the_hash",
    ),
    Guard("charge", "moved(b.history, vouched) and stored or found", "found", LOWERS),
    Guard("charge", "redis.call('SET', b.history,", "string.len(b.history,", VOUCHED),
    Guard("charge", "(charged or digits(units))", "digits(units)", AGAIN),
    Guard("charge", "digits(number(turn) + 1)", "'1'", THEIRS),
    Guard("charge", "digits(now + ARGV[2]), 'o '", "'1', 'o '", DUE),
    Guard("charge", "redis.call('PERSIST', b.book)\n", "", IDLE),
    Guard("charge", "redis.call('PERSIST', b.spent)\n", "", IDLE),
    Guard("correct", "if entry then", "if true then", TWICE),
    Guard("correct", "bucket >= oldest(span, width, now)", "true", SPAN),
    Guard("correct", "math.min(MOST, ", "math.max(0, ", EXACT),
    Guard("correct", "redis.call('ZADD', agenda, digits(now + ARGV[1]), 'e ' .. life .. ' ' .. name)", "", ENDED),
    Guard("correct", "redis.call('SETRANGE', history, 0,", "string.rep('',", WRITES),
    Guard("correct", "redis.call('ZREM', KEYS[3], '')", "", FULL),
    Guard("correct", "redis.call('HDEL', book, 'o:' .. life)", "", TWICE),
    Guard("correct", "redis.call('HINCRBY', book, 'open', '-' .. units)", "", HOLDS),
    Guard("correct", "redis.call('ZREM', agenda, 'o ' .. life .. ' ' .. name)", "", "agenda_forgets_what_is_over"),
    Guard("uncharge", "if units and stands == turn then", "if units then", THEIRS),
    Guard("uncharge", "redis.call('HDEL', book, 'o:' .. life)", "", FULL),
    Guard("uncharge", "number(span) > 0 and ", "", "budget_for_ever_is_never_forgotten"),
    Guard("override", "and not kept[2] and", "and", IDLE),
    Guard("correct", "and number(kept[1]) <= 0 then", "then", IDLE),
    Guard("usage", "stored ~= replication_id() and vouched == ''", "stored ~= replication_id()", VOUCHED),
    Guard("override", "if stands ~= ARGV[1] and stands ~= ARGV[2] then return 0 end", "", OVERRIDE),
    Guard("override", "stands ~= ARGV[1] and ", "", OVERRIDE),
    Guard("override", "redis.call('HINCRBY', KEYS[1], 'touch', 1)", "", WRITES),
    Guard("override", "rest(KEYS[1], KEYS[2])\nreturn", "return", IDLE),
    Guard(
        "restore",
        "if number(redis.call('HGET', KEYS[2], ARGV[at])) < tonumber(ARGV[at + 1]) then",
        "if true then",
        LOWERS,
    ),
    Guard("restore", "if not redis.call('HGET', KEYS[1], 'o:' .. life) then", "if true then", LOWERS),
    Guard("restore", "redis.call('ZADD', KEYS[3],", "string.len(KEYS[3],", MOVED),
    Guard(
        "rebuilt",
        "if ARGV[2] ~= found then return 0 end",
        "",
        "rebuilding_during_another_change_of_history_opens_nothing",
    ),
    Guard("rebuilt", "if ARGV[2] == '' then return {stored or found, found} end", "", MOVED),
]
