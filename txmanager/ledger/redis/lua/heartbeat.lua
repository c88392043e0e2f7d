-- heartbeat: say that a worker lives and what it can serve.
-- Keys   1 members (hash)  2 deadlines (zset)  3 versions (hash)
-- Args   1 name  2 ttl ms  3 digest of its lanes  4 member (json) | "" if it was told before
-- Reply  1, or 0 if the member has to be told (again)
-- Why    a worker may serve many lanes: their names are written when they change, not at every heartbeat
--@include _time
redis.call('ZREM', KEYS[2], '') -- needs no memory: a full server must not make live workers look dead
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
  redis.call('HSET', KEYS[3], ARGV[1], ARGV[3] .. ' ' .. #ARGV[4])
else
  local told = ARGV[3] .. ' ' .. redis.call('HSTRLEN', KEYS[1], ARGV[1])
  if redis.call('HGET', KEYS[3], ARGV[1]) ~= told then return 0 end
end
redis.call('ZADD', KEYS[2], digits(clock() + ARGV[2]), ARGV[1])
return 1
