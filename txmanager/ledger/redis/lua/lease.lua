-- lease: become the one owner of a lane for a while.
-- Keys   1 lane (hash)  2 queue (stream)  3 open (set)  4 finals (set)
-- Args   1 owner  2 token  3 lease ms  4 our schema
-- Reply  {"leased", epoch, owner, snapshot} | {"held", owner, ms left} | {"closed"} | {"unknown"} | {"schema", theirs}
-- Why    the epoch grows at each take-over, so that every later write of the old owner is told from ours
--@include _time
--@include _replication
--@include _snapshot
local lane = redis.call('HMGET', KEYS[1], 'state', 'schema', 'token', 'until', 'owner')
if not lane[1] then return {'unknown'} end
if lane[1] == 'closed' then return {'closed'} end
if tonumber(lane[2]) > tonumber(ARGV[4]) then return {'schema', lane[2]} end
local now = clock()
if lane[3] ~= ARGV[2] then
  if tonumber(lane[4]) > now then return {'held', lane[5], digits(lane[4] - now)} end
  redis.call('HDEL', KEYS[1], 'until') -- needs no memory: a full server must still let lanes change hands
  redis.call('HINCRBY', KEYS[1], 'epoch', 1)
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'token', ARGV[2])
else
  redis.call('HDEL', KEYS[1], 'until')
end
redis.call('HSET', KEYS[1], 'until', digits(now + ARGV[3]))
local held = redis.call('HMGET', KEYS[1], 'epoch', 'owner')
return {'leased', held[1], held[2], snapshot(KEYS[1], KEYS[2], KEYS[3], KEYS[4])}
