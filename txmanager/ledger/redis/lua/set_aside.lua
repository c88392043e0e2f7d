-- set_aside: hold a queued intent of which nothing was signed, and take it out of the lane's way.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 open (set)  5 record (hash)
-- Args   1 epoch  2 token  3 id  4 stream id  5 reason  6 hold (json)
-- Reply  {"held"} | {"refused", status} | {"dropped"} | {"fenced", owner, epoch}
-- Why    an entry that must not be signed stays first in the queue for ever; the record keeps what the entry said
--@include _time
--@include _fence
--@include _event
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local record = redis.call('HMGET', KEYS[5], 's', 'i')
local own = record[2] == ARGV[4] -- whatever life the entry names: that may be what somebody changed
if own and record[1] == 'held' then return {'held'} end
if own and record[1] ~= 'queued' then return {'refused', record[1]} end
local entry = redis.call('XRANGE', KEYS[2], ARGV[4], ARGV[4])[1]
redis.call('XACK', KEYS[2], 'lane', ARGV[4]) -- needs no memory, as everything that stops work
redis.call('XDEL', KEYS[2], ARGV[4])
if not own or not entry then return {'dropped'} end
local said = {}
for i = 1, #entry[2], 2 do said[entry[2][i]] = entry[2][i + 1] end
local now = clock()
redis.call('HSET', KEYS[5], 's', 'held', 'h', ARGV[6], 'k', said['k'], 'f', said['f'], 'm', said['m'], 'p', said['p'],
  'u', digits(now))
redis.call('HSETNX', KEYS[5], 't', string.match(ARGV[4], '^%d+')) -- a new entry would be younger than the intent
redis.call('SADD', KEYS[4], ARGV[3])
event(ARGV[3], 'held', '', ARGV[5])
tell_now(KEYS[1], KEYS[3], now)
return {'held'}
