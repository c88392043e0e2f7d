-- release: hand the lane back at once instead of letting the lease run out.
-- Keys   1 lane (hash)
-- Args   1 epoch  2 token
-- Reply  {"released"} | {"fenced", owner, epoch}
-- Why    the token that left is kept, so that a repeated release is told from one that came too late
--@include _fence
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then
  local last = redis.call('HMGET', KEYS[1], 'epoch', 'left')
  if last[1] == ARGV[1] and last[2] == ARGV[2] then return {'released'} end
  return out
end
redis.call('HDEL', KEYS[1], 'until')
redis.call('HSET', KEYS[1], 'owner', '', 'token', '', 'left', ARGV[2], 'until', '0')
return {'released'}
