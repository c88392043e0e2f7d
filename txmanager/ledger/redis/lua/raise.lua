-- raise: let a lane write newer formats from now on.
-- Keys   1 lane (hash)  2 queue (stream)
-- Args   1 schema
-- Reply  1 | 0 if it was raised before, there is none, or it is parked: it has no queue, and is raised when it comes back
--@include _schema
local lane = redis.call('HMGET', KEYS[1], 'schema', 'limit', 'state')
if not lane[3] or tonumber(lane[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'schema', ARGV[1])
limit(KEYS[1], ARGV[1], lane[2])
ungroup(KEYS[2])
return 1
