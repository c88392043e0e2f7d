-- hold: mark an inflight intent whose fate needs an operator.
-- Keys   1 lane (hash)  2 events (stream)  3 record (hash)
-- Args   1 epoch  2 token  3 id  4 life  5 reason  6 hold (json)
-- Reply  {"held"} | {"refused", status} | {"gone"} | {"fenced", owner, epoch}
--@include _time
--@include _fence
--@include _event
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local record = redis.call('HMGET', KEYS[3], 's', 'l')
if record[1] == 'retired' or record[2] ~= ARGV[4] then return {'gone'} end
if record[1] == 'held' then return {'held'} end
if record[1] ~= 'inflight' then return {'refused', record[1]} end
local now = clock()
redis.call('HDEL', KEYS[3], 'h') -- needs no memory, as everything that stops work
redis.call('HSET', KEYS[3], 's', 'held', 'h', ARGV[6], 'u', digits(now))
event(ARGV[3], 'held', '', ARGV[5])
tell_now(KEYS[1], KEYS[2], now)
return {'held'}
