-- vouch: accept that the server writes another history, after the owner decided that nothing was lost.
-- Keys   1 lane (hash)
-- Args   1 epoch  2 token  3 stored replication id  4 found replication id
-- Reply  {"ok"} | {"other", stored} | {"fenced", owner, epoch}
--@include _fence
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local stored = redis.call('HGET', KEYS[1], 'replid')
if stored == ARGV[3] then
  redis.call('HDEL', KEYS[1], 'settling') -- needs no memory, as everything that lets a lane go on
  redis.call('HSET', KEYS[1], 'replid', ARGV[4])
elseif stored ~= ARGV[4] then
  return {'other', stored}
end
return {'ok'}
