-- broke: count that an intent, or the lane itself, broke its owner.
-- Keys   1 lane (hash)  2 breaks (hash)
-- Args   1 epoch  2 token  3 what broke  4 mark of this break  5 exception  6 forget after ms
-- Reply  {"broke", count} | {"fenced", owner, epoch}
-- Why    the next owner meets the same intent: a count that starts anew at each take-over never ends
--@include _time
--@include _fence
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local count, mark, at = string.match(redis.call('HGET', KEYS[2], ARGV[3]) or '', '^(%d+) (%S+) (%d+) ')
if mark == ARGV[4] then return {'broke', count} end
local now, times = clock(), 1
if count and now - at < tonumber(ARGV[6]) then times = count + 1 end
redis.call('HDEL', KEYS[2], ARGV[3]) -- needs no memory, as everything that stops work
redis.call('HSET', KEYS[2], ARGV[3], digits(times) .. ' ' .. ARGV[4] .. ' ' .. digits(now) .. ' ' .. ARGV[5])
redis.call('PEXPIRE', KEYS[2], 172800000)
return {'broke', digits(times)}
