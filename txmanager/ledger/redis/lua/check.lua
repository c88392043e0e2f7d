-- check: ask a lane's owner to compare with the chain, once for each request.
-- Keys   1 lane (hash)
-- Args   1 request  2 wake channel
-- Reply  {"asked"} | {"unknown"}
-- Why    a monitor holds no lease and no key: all it may do to a lane is to draw its owner's attention
local lane = redis.call('HMGET', KEYS[1], 'spec', 'check')
if not lane[1] then return {'unknown'} end
if lane[2] == ARGV[1] then return {'asked'} end
redis.call('HDEL', KEYS[1], 'check') -- needs no memory: a full server is when a monitor matters
redis.call('HSET', KEYS[1], 'check', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'asks', 1)
redis.call('PUBLISH', ARGV[2], 'ask')
return {'asked'}
