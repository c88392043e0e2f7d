"""The guards of the schema, of what a raised lane writes, and of what it does not."""

from __future__ import annotations

from tests.ledger.guards import Guard

_RAISED = "upgrade_raises_the_installation_and_every_lane_once"
_NEVER = "schema_is_never_lowered"
_ROOM = "append_of_an_older_release_finds_no_room_in_a_raised_lane"
_PAGES = "pages_of_events_begin_and_end_within_a_step"
_BEHIND = "step_behind_a_later_event_keeps_the_place_of_each"
_TRIM = "events_are_trimmed_by_their_number"
_EITHER = "what_was_signed_in_either_schema_is_unfinished_until_it_ends"
_SAYS = "record_that_leaves_the_queue_says_what_its_entry_said"

SCHEMAS = [
    Guard(
        "schema",
        "or redis.call('HLEN', KEYS[1]) == 0",
        "or true",
        "new_installation_writes_the_newest_formats_and_an_older_one_waits",
    ),
    Guard("schema", "redis.call('HDEL', KEYS[1], '')", "", "full_server_lets_workers_come_up"),
    Guard("schema", "if not known or ARGV[2] == 'raise' then", "if not known then", _RAISED, 1),
    Guard("schema", "math.max(tonumber(known or 1), ", "math.max(1, ", _NEVER),
    Guard("raise", "if not lane[3] or tonumber(lane[1]) >= tonumber(ARGV[1]) then return 0 end", "", _NEVER),
    Guard("raise", "not lane[3] or ", "", "upgrade_passes_over_a_lane_that_was_parked_meanwhile", 1),
    Guard("raise", "redis.call('HSET', KEYS[1], 'schema', ARGV[1])", "", _RAISED, 1),
    Guard("raise", "limit(KEYS[1], ARGV[1], lane[2])", "", _ROOM, 1),
    Guard("register", "math.max(tonumber(lane[2] or 1), tonumber(ARGV[3]))", "tonumber(ARGV[3])", _NEVER),
    Guard(
        "register",
        "'schema', schema, 'used'",
        "'schema', lane[2] or schema, 'used'",
        "lane_that_was_not_in_the_registry_is_raised_when_it_comes_back",
        1,
    ),
    Guard(
        "register",
        "if tonumber(lane[2] or 1) < schema then ungroup(KEYS[2]) end",
        "",
        "lane_that_was_not_in_the_registry_is_raised_when_it_comes_back",
        1,
    ),
    Guard("register", "if tonumber(schema) < 2 then", "if true then", _ROOM),
    Guard(
        "register",
        "group(KEYS[2], schema)",
        "",
        "what_an_older_release_read_through_the_group_is_acknowledged",
        1,
    ),
    Guard("append", "tonumber(lane[9] or lane[2])", "tonumber(lane[2])", _ROOM),
    # what is unfinished
    Guard("record_attempts", "keep_too('signed', (lane[8] or 0) + #opened)", "", _EITHER),
    Guard("record_attempts", "if tonumber(lane[6]) >= 2 then", "if true then", _EITHER, 1),
    Guard("settle", "'signed', lane[6] - (#ended - unsigned - in_set)", "'signed', lane[6]", _EITHER),
    Guard("settle", "- unsigned -", "-", _EITHER),
    Guard("settle", " - in_set)", ")", _EITHER, 1),
    Guard("unfinished", "if not known[id] then", "if true then", _EITHER, 1),
    Guard("pending", "tonumber(stands[2] or 0) > 0 and {true} or {}", "{}", _EITHER),
    # events
    Guard("settle", "if tonumber(schema) < 2 then\n    for", "if true then\n    for", _PAGES),
    Guard("settle", "if tonumber(schema) < 2 then\n    for", "if false then\n    for", _PAGES, 1),
    Guard("append", "if place then keep_too('told', place) end", "", _PAGES),
    Guard(
        "append",
        "local at = math.max(now, tonumber(ms))",
        "local at = now",
        "clock_that_was_set_back_keeps_events_in_order",
    ),
    Guard("append", "if redis.pcall(", "if redis.call(", "event_that_somebody_else_wrote_loses_no_step"),
    Guard(
        "append",
        "for _, line in ipairs(transitions) do id =",
        "for _, line in ipairs({table.concat(transitions, '\\n')}) do id =",
        _BEHIND,
    ),
    Guard("append", "math.max(count, tonumber(n))", "count", _BEHIND),
    Guard("append", "if math.floor(count / 5000) > math.floor(before / 5000) then", "if false then", _TRIM),
    Guard("append", "if mark[1] then redis.call('XTRIM'", "if true then redis.call('XTRIM'", _TRIM),
    Guard("append", "'mark', mark[2] or '0-0'", "'mark', id", _TRIM),
    Guard(
        "hold",
        "if err ~= '' then err = string.gsub",
        "if false then err = string.gsub",
        "words_of_an_error_do_not_break_the_line_of_an_event",
    ),
    # what only the entry says
    Guard("settle", "keep_entry(KEYS[2], KEYS[i], record[3], archive)", "", _SAYS),
    Guard("cancel", "keep_entry(KEYS[2], KEYS[6], record[3], archive)", "", _SAYS),
    Guard("settle", "'t', string.match(sid, '^%d+'))", "'t', '1')", _SAYS),
    Guard("settle", "redis.call('HSETNX', record, 'm', said[10])", "", _SAYS),
    Guard(
        "set_aside",
        "redis.call('HSETNX', KEYS[5], 't', string.match(ARGV[4], '^%d+'))",
        "",
        "intent_that_was_set_aside_keeps_its_age",
    ),
]
