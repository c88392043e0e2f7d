"""The guards of codes and sessions."""

from __future__ import annotations

from tests.ledger.guards import Guard

USED = "code_that_was_used_is_refused"
OLD = "code_that_is_too_old_is_refused"
BOUNDED = "codes_and_sessions_are_bounded_and_the_next_to_end_goes_first"
LAPSE = "codes_and_sessions_are_forgotten_in_time"
FULL = "full_server_lets_people_log_in_and_out"
WRITES = "replay_of_every_login_writes"

SESSIONS = [
    Guard(
        "open_session",
        "if open then return {'opened', open} end",
        "",
        "opening_that_is_repeated_answers_the_same_session",
    ),
    Guard("open_session", "if not ends then return {'refused', ''} end", "", "code_buys_one_session_of_its_issuer"),
    Guard("open_session", "redis.call('HDEL', KEYS[1], ARGV[1])", "", USED),
    Guard("open_session", "if tonumber(ends) <= now then return {'refused', ''} end", "", OLD),
    Guard("open_session", "touch(KEYS[2], now)", "", WRITES),
    Guard("open_session", "keep_for(KEYS[2], '60000')", "", LAPSE),
    Guard("open_session", "for i = 1, #left - most + 1 do", "for i = 1, 0 do", BOUNDED),
    Guard("offer_code", "for i = 1, #left - most + 1 do", "for i = 1, 0 do", BOUNDED),
    Guard("open_session", "function(a, b) return a[1] < b[1] end", "function(a, b) return a[1] > b[1] end", BOUNDED),
    Guard("offer_code", "keep_for(key, lasts)", "", LAPSE),
    Guard("open_session", "keep_for(key, lasts)", "", LAPSE),
    Guard("offer_code", "redis.call('PTTL', key) < tonumber(ms)", "true", LAPSE),
    Guard("end_session", "keep_for(KEYS[1], '60000')", "", LAPSE),
    Guard("end_session", "touch(KEYS[1], clock())", "", WRITES),
    Guard("offer_code", "redis.call('HDEL', key, '')", "", FULL),
    Guard("open_session", "redis.call('HDEL', key, '')", "", FULL),
    Guard("end_session", "redis.call('HDEL', key, '')", "", FULL),
]
