-- reseal: give an intent that is held for its seal another one, and let it go on.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 open (set)  5 record (hash)
-- Args   1 id  2 life  3 more (json, with the seal)  4 how the hold begins  5 wake channel
-- Reply  {"ok"} | {"refused", status} | {"gone"}
-- Why    what was set aside is accepted anew, behind what was accepted since; what was signed is in flight still
--@include _time
--@include _event
local record = redis.call('HMGET', KEYS[5], 's', 'l', 'h', 'k', 'f', 'p')
if record[1] == 'retired' or record[2] ~= ARGV[2] then return {'gone'} end
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory: an operator must be heard on a full server too
redis.call('HINCRBY', KEYS[1], 'touch', 1)
if record[1] ~= 'held' or string.sub(record[3], 1, #ARGV[4]) ~= ARGV[4] then return {'refused', record[1]} end
local now, status = clock(), 'inflight'
if record[6] then
  status = 'queued'
  local sid = redis.call('XADD', KEYS[2], '*', 'i', ARGV[1], 'l', ARGV[2], 'f', record[5], 'k', record[4],
    'm', ARGV[3], 'p', record[6])
  redis.call('HDEL', KEYS[5], 'p')
  redis.call('HSET', KEYS[5], 'i', sid)
  redis.call('SREM', KEYS[4], ARGV[1])
  redis.call('HSET', KEYS[1], 'last', sid)
end
redis.call('HDEL', KEYS[5], 'h')
redis.call('HSET', KEYS[5], 's', status, 'm', ARGV[3], 'u', digits(now))
event(ARGV[1], status, '', '')
tell_now(KEYS[1], KEYS[3], now)
redis.call('HINCRBY', KEYS[1], 'asks', 1)
redis.call('PUBLISH', ARGV[5], 'append')
return {'ok'}
