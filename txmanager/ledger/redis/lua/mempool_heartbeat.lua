-- mempool_heartbeat: an instance lives; one that was silent too long holds nothing any more.
-- Keys   as in _mempool
-- Args   1 limits  2 owner
-- Reply  {"1" lapsed | "0", born}
-- Why    an instance that paused must not send for a grant that somebody else has taken over meanwhile
--@include _time
--@include _replication
--@include _mempool
--@include _mempool_server
redis.call('HDEL', KEYS[13], '') -- needs no memory: a full server must not make live instances look dead
mind_the_server()
local since, last = string.match(redis.call('HGET', KEYS[13], ARGV[2]) or '', '^(%d+) (%d+)$')
local lapsed = not last or now - last >= L.alive_ms
if lapsed then since = digits(now) end
redis.call('HSET', KEYS[13], ARGV[2], since .. ' ' .. digits(now))
flush()
return {lapsed and '1' or '0', C.born}
