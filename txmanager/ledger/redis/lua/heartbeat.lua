-- heartbeat: say that a worker lives and what it can serve; forget those that do not.
-- Keys   1 members (hash)  2 deadlines (zset)
-- Args   1 name | ""  2 member (json)  3 ttl ms
-- Reply  {member (json), ...} of all that live
--@include _time
local now = clock()
redis.call('ZREM', KEYS[2], '') -- needs no memory: a full server must not make live workers look dead
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', digits(now))) do
  redis.call('HDEL', KEYS[1], name)
  redis.call('ZREM', KEYS[2], name)
end
if ARGV[1] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('ZADD', KEYS[2], digits(now + ARGV[3]), ARGV[1])
end
return redis.call('HVALS', KEYS[1])
