-- release: hand the lane back at once instead of letting the lease run out.
-- Keys   1 lane (hash)
-- Args   1 epoch  2 token
-- Reply  {"released"} | {"fenced", owner, epoch}
--@include _fence
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
redis.call('HDEL', KEYS[1], 'until')
redis.call('HSET', KEYS[1], 'owner', '', 'token', '', 'until', '0')
return {'released'}
