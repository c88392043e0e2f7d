-- register: publish a lane, or refresh what is published of it; raise its schema to the installation's. One that was
-- parked goes on.
-- Keys   1 lane (hash)  2 queue (stream)  3 open (set)  4 finals (set)
-- Args   1 spec (json)  2 queue limit  3 schema  4 keyless "1" | ""
-- Reply  {"ok", snapshot} | {"closed"} | {"other_sort"}
-- Why    a closed lane is closed for ever: claims that name it are moved, and must not find it reborn; and a key that
--        somebody else holds signs outside of our sequence: an address is of one sort for ever
--@include _time
--@include _replication
--@include _snapshot
--@include _schema
--@include _unpark
local lane = redis.call('HMGET', KEYS[1], 'state', 'schema', 'keyless', 'spec')
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory: a worker that restarts beside a full server must come up
if lane[1] == 'closed' then
  redis.call('HINCRBY', KEYS[1], 'touch', 1) -- waited for: whoever hears it gives the lane up, and a failover may forget it
  return {'closed'}
end
if lane[4] and (lane[3] or '') ~= ARGV[4] then return {'other_sort'} end
local schema = math.max(tonumber(lane[2] or 1), tonumber(ARGV[3]))
if lane[4] then
  if tonumber(lane[2] or 1) < schema then ungroup(KEYS[2]) end
  unpark(KEYS[1], KEYS[2], schema)
else
  redis.call('HSET', KEYS[1], 'state', 'active', 'epoch', '0', 'owner', '', 'token', '', 'until', '0', 'upto', '0-0',
    'last', '0-0', 'asks', '0', 'replid', replication_id(),
    'rev', digits(clock() * 1000)) -- above all that the registry may still have of a lane that was deleted
  if ARGV[4] == '1' then redis.call('HSET', KEYS[1], 'keyless', '1') end
  group(KEYS[2], schema)
end
redis.call('HSET', KEYS[1], 'spec', ARGV[1], 'schema', schema, 'used', digits(clock()))
limit(KEYS[1], schema, ARGV[2])
redis.call('HINCRBY', KEYS[1], 'rev', 1)
return {'ok', snapshot(KEYS[1], KEYS[2], KEYS[3], KEYS[4])}
