-- renew: keep a lane, and learn what changed on it.
-- Keys   1 lane (hash)  2 queue (stream)
-- Args   1 epoch  2 token  3 lease ms
-- Reply  {"renewed", depth, state, asks, stored replication id, found replication id} | {"fenced", owner, epoch}
--@include _time
--@include _fence
--@include _replication
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
redis.call('HDEL', KEYS[1], 'until')
redis.call('HSET', KEYS[1], 'until', digits(clock() + ARGV[3]))
local lane = redis.call('HMGET', KEYS[1], 'state', 'asks', 'replid')
return {'renewed', redis.call('XLEN', KEYS[2]), lane[1], lane[2], lane[3], replication_id()}
