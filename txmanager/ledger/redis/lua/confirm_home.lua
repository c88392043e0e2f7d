-- confirm_home: read a home, and write what changes nothing, so that a WAIT behind it covers what was read.
-- Keys   1 home (string)  2 open (zset)
-- Reply  the home | nothing
-- Why    as in confirm_lane: a failover must not take back what a caller was told
redis.call('ZREM', KEYS[2], '') -- a write that needs no memory, so that a full server lets the script pass
local home = redis.call('GET', KEYS[1])
redis.call('SETRANGE', KEYS[1], 0, string.sub(home or '', 1, 1))
return home
