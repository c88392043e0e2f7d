-- draw: take from a bucket that all API processes share.
-- Keys   1 bucket (hash)
-- Args   1 per second  2 burst  3 how many are wanted
-- Reply  {granted, ms until there is one}
-- Why    buckets of each process would give a caller its rate as often as there are processes
--@include _time
local now, rate, burst = clock(), tonumber(ARGV[1]), tonumber(ARGV[2])
local kept = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = burst
if kept[1] then left = math.min(burst, kept[1] + math.max(0, now - kept[2]) * rate / 1000) end
local granted = math.min(tonumber(ARGV[3]), math.floor(left))
left = left - granted
redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left), 'at', digits(now))
redis.call('PEXPIRE', KEYS[1], digits(math.ceil((burst - left) / rate * 1000) + 1000)) -- full again: nothing to remember
return {granted, math.max(1, math.ceil((1 - left) / rate * 1000))}
