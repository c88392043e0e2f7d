-- park: hand back a keyless lane that nobody uses, and let nobody serve it; its numbers stand.
-- Keys   1 lane (hash)  2 reservations (hash)  3 deadlines (zset)  4 reuse (zset)  5 line (zset)  6 queue (stream)
--        7 open (set)  8 finals (set)  9 fills (hash)  10 backlog (zset)  11 events (stream)
-- Args   1 epoch  2 token  3 how many ms without use
-- Reply  {"parked", snapshot} | {"busy", ms after which it may be idle} | {"fenced", owner, epoch}
-- Why    a number is handed out before this step, which then parks nothing, or after it, when there is no lane to hand
--        it out: without `state` every release, 0.1.0 included, registers the lane first
--@include _time
--@include _decimal
--@include _fence
--@include _held
--@include _numbers
--@include _replication
--@include _snapshot
local function parked()
  redis.call('HINCRBY', KEYS[1], 'touch', 1)
  return {'parked', snapshot(KEYS[1], KEYS[6], KEYS[7], KEYS[8])}
end
local lane = redis.call('HMGET', KEYS[1], 'state', 'keyless', 'used', 'last', 'epoch', 'left')
if not lane[1] and lane[5] == ARGV[1] and lane[6] == ARGV[2] then return parked() end
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local now = clock()
expire(now)
local used = redis.call('HLEN', KEYS[2]) + redis.call('XLEN', KEYS[6]) + redis.call('SCARD', KEYS[7])
  + redis.call('SCARD', KEYS[8]) + redis.call('HLEN', KEYS[9]) + redis.call('ZCARD', KEYS[10])
if lane[1] ~= 'active' or lane[2] ~= '1' or used > 0 then
  return {'busy', digits(math.max(1, tonumber(ARGV[3])))}
end
local function at(id) return tonumber(string.match(id, '^%d+')) end
local event = redis.call('XREVRANGE', KEYS[11], '+', '-', 'COUNT', '1')[1]
local left = math.max(tonumber(lane[3] or 0), at(lane[4]), event and at(event[1]) or 0) + ARGV[3] - now
if left > 0 then return {'busy', digits(left)} end
redis.call('HDEL', KEYS[1], 'state', 'until') -- needs no memory: to park lanes is to make room
redis.call('HSET', KEYS[1], 'parked', digits(now), 'owner', '', 'token', '', 'left', ARGV[2], 'until', '0',
  'upto', '0-0', 'last', '0-0')
redis.call('HINCRBY', KEYS[1], 'rev', 1)
redis.call('DEL', KEYS[6]) -- empty; 0.1.0 could not begin another one
return parked()
