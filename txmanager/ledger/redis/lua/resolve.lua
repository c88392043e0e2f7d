-- resolve: leave an operator's word on a held intent for the lane's owner.
-- Keys   1 lane (hash)  2 record (hash)
-- Args   1 life  2 directive (json)  3 wake channel
-- Reply  {"asked"} | {"refused", status} | {"gone"}
-- Why    only the owner may act on a lane, and only with proof; an operator just says what he wants
--@include _time
local record = redis.call('HMGET', KEYS[2], 's', 'l', 'p')
if record[1] == 'retired' or record[2] ~= ARGV[1] then return {'gone'} end
if record[1] ~= 'held' then return {'refused', record[1]} end
if record[3] then return {'refused', 'unsigned'} end -- nothing of it is out: cancel it, or reseal it
local asked = redis.call('HGET', KEYS[2], 'd') == ARGV[2]
redis.call('HDEL', KEYS[2], 'd') -- needs no memory: an operator must be heard on a full server too
redis.call('HSET', KEYS[2], 'd', ARGV[2], 'u', digits(clock()))
if asked then return {'asked'} end
redis.call('HINCRBY', KEYS[1], 'asks', 1)
redis.call('PUBLISH', ARGV[3], 'ask')
return {'asked'}
