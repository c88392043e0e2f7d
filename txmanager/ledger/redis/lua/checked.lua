-- checked: note that a lane was compared with the chain.
-- Keys   1 lane (hash)
-- Reply  {"ok"} | {"unknown"}
--@include _time
if redis.call('HEXISTS', KEYS[1], 'spec') == 0 then return {'unknown'} end
redis.call('HDEL', KEYS[1], 'checked') -- needs no memory
redis.call('HSET', KEYS[1], 'checked', digits(clock()))
return {'ok'}
