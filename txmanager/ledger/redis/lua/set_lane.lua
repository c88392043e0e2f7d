-- set_lane: move a lane to another state, with cause and command to act on, and reason and evidence to show.
-- Keys   1 lane (hash)  2 queue (stream)  3 open (set)  4 finals (set)
-- Args   1 state  2 allowed states  3 reason  4 evidence (json)  5 epoch | ""  6 token  7 wake channel  8 cause | ""
--        9 command | ""  10 asks as it was read | ""
-- Reply  {"ok", snapshot} | {"refused", state} | {"busy", records} | {"outdated"} | {"unknown"} | {"fenced", owner, epoch}
-- Why    `stop` tells what cause and command belong to: release 0.1.0 writes the other fields and leaves them standing
--@include _time
--@include _fence
--@include _replication
--@include _snapshot
--@include _schema
--@include _unpark
if ARGV[5] ~= '' then
  local out = fenced(KEYS[1], ARGV[5], ARGV[6])
  if out then return out end
end
local stands = redis.call('HMGET', KEYS[1], 'state', 'parked')
local state = stands[1] or stands[2] and 'active'
if not state then return {'unknown'} end
if state ~= ARGV[1] then
  if not string.find(ARGV[2], ' ' .. state .. ' ', 1, true) then return {'refused', state} end
  local left = redis.call('XLEN', KEYS[2]) + redis.call('SCARD', KEYS[4])
  if left == 0 then left = redis.call('SCARD', KEYS[3]) end -- set aside: not in the queue, and not over
  if ARGV[1] == 'closed' and left > 0 then return {'busy', left} end
end
local said = redis.call('HMGET', KEYS[1], 'state', 'reason', 'evidence', 'stop')
local stop = redis.sha1hex(ARGV[1] .. '\n' .. ARGV[3] .. '\n' .. ARGV[4]) .. ' ' .. ARGV[8] .. ' ' .. ARGV[9]
local changes = said[1] ~= ARGV[1] or (said[2] or '') ~= ARGV[3] or (said[3] or '{}') ~= ARGV[4]
  or (said[4] or stop) ~= stop
if changes and ARGV[10] ~= '' and (redis.call('HGET', KEYS[1], 'asks') or '0') ~= ARGV[10] then return {'outdated'} end
redis.call('HDEL', KEYS[1], 'reason', 'stop') -- needs no memory: a full server must still let a lane be stopped
unpark(KEYS[1], KEYS[2], redis.call('HGET', KEYS[1], 'schema'))
redis.call('HSET', KEYS[1], 'state', ARGV[1], 'reason', ARGV[3], 'evidence', ARGV[4], 'stop', stop)
if changes then
  redis.call('HINCRBY', KEYS[1], 'asks', 1)
  redis.call('HINCRBY', KEYS[1], 'rev', 1)
  redis.call('PUBLISH', ARGV[7], 'ask')
else
  redis.call('HINCRBY', KEYS[1], 'touch', 1)
end
return {'ok', snapshot(KEYS[1], KEYS[2], KEYS[3], KEYS[4])}
