"""The guards of accept: its own, and those it shares with append where the one step makes them matter anew."""

from __future__ import annotations

from tests.ledger.guards import Guard

_REFUSED = "accept_that_the_lane_refuses_leaves_no_claim"
_LATE = "late_accept_is_stale_and_one_from_the_future_ahead"
_BOTH = "accept_claims_a_new_key_and_appends_its_intent"
_FULL = "full_server_pushes_producers_back_before_the_claim"

ACCEPT = [
    Guard(
        "accept",
        "if not new and redis.call('EXISTS', KEYS[i + 1]) == 1 then",
        "if false then",
        "accept_leaves_every_key_alone_that_has_a_home",
    ),
    Guard(
        "accept",
        "if not new and redis.call('EXISTS', KEYS[i + 1]) == 1 then",
        "if false then",
        "two_producers_that_accept_one_key_at_once_begin_one_life",
    ),
    Guard("accept", "if reply[1] == 'appended' then", "if true then", _REFUSED),
    Guard("accept", "if reply[1] == 'appended' then", "if false then", _BOTH),
    Guard("accept", " .. ARGV[3] .. '\\n')", " .. 'nowhere\\n')", _BOTH),
    Guard(
        "accept",
        "redis.call('EXISTS', KEYS[i], KEYS[i + 1]) == 0",
        "redis.call('EXISTS', KEYS[i + 1]) == 0",
        "record_of_another_life_is_told_apart_from_a_new_key",
    ),
    Guard("accept", "close_batch()\nreturn", "return", "accept_wakes_whoever_waits_for_the_lane"),
    Guard("accept", "elseif born < now - ARGV[1] then", "elseif false then", _LATE),
    Guard("accept", "elseif born > now + ARGV[1] then", "elseif false then", _LATE),
    Guard("accept", "    return {'other_life'}", "", "record_of_another_life_is_told_apart_from_a_new_key"),
    Guard("accept", "elseif depth >= most_queued then", "elseif false then", _REFUSED),
    Guard("accept", "elseif too_much(ARGV[at + 10]) then", "elseif false then", _REFUSED),
    Guard("accept", "elseif taken(", "elseif false and taken(", _REFUSED),
    Guard("accept", "not lane[1] or ", "", _REFUSED),
    Guard("accept", " or lane[1] == 'closed'", "", _REFUSED),
    # A deletion as the first write would let a full server accept, which must keep its room for what is under way.
    Guard("accept", "local replies = {}\n", "local replies = {}\nredis.call('HDEL', KEYS[1], 'x')\n", _FULL),
]
