-- append: accept intents into the lane's queue, each once.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 reservations (hash)  5 deadlines (zset)
--        6 open (set)  7.. record (hash) of each intent  then, on one server, home (string) of each
-- Args   1 append limit ms  2 wake channel  then per intent: id, life, born, fingerprint, kind, more (json), payload,
--        on a keyless lane reservation token, nonce, hash (else "" each), and who pays for the room:
--        "owner bytes most|- most bytes|-" | ""
-- Reply  per intent {"appended"|"exists", stream id, status, depth, at} | {"retired"} | {"other_life"} | {"stale"} |
--        {"ahead"} | {"closed"} | {"full", depth} | {"unreserved", cursor | ""} | {"used", cursor} |
--        {"no_room", owner's intents, owner's bytes}
-- Why    a producer that paused after its claim must not bring back an intent that already ended: a tombstone says so,
--        or its home where that is at hand; and bytes that may be sent own their number from the step that accepts them
--@include _time
--@include _event
--@include _decimal
--@include _held
--@include _append
local replies = {}
local asked = (#ARGV - 2) / 11
for i = 1, asked do replies[i] = append(KEYS[6 + i], 3 + (i - 1) * 11, false, KEYS[6 + asked + i]) end
close_batch()
return replies
