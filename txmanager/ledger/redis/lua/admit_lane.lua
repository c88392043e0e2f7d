-- admit_lane: let a caller bring a lane into being, of which it may have only so many.
-- Keys   1 made (zset: lane by the time it was admitted)  2 registry (hash)  3 parked (hash)
-- Args   1 lane  2 how many  3 ms after which a lane that never came to be is let go
-- Reply  1 | 0
--@include _time
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 1 end
if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then return 1 end -- it is there, whoever brought it into being
local now, most = clock(), tonumber(ARGV[2])
if redis.call('ZCARD', KEYS[1]) >= most then
  for _, lane in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', digits(now - ARGV[3]))) do
    local there = redis.call('HEXISTS', KEYS[2], lane) + redis.call('HEXISTS', KEYS[3], lane)
    if there == 0 then redis.call('ZREM', KEYS[1], lane) end
  end
  if redis.call('ZCARD', KEYS[1]) >= most then return 0 end
end
redis.call('ZADD', KEYS[1], digits(now), ARGV[1])
return 1
