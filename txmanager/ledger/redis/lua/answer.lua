-- answer: clear an operator's directive that was carried out.
-- Keys   1 lane (hash)  2 record (hash)
-- Args   1 epoch  2 token  3 life
-- Reply  {"ok"} | {"gone"} | {"fenced", owner, epoch}
--@include _fence
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local record = redis.call('HMGET', KEYS[2], 's', 'l')
if record[1] == 'retired' or record[2] ~= ARGV[3] then return {'gone'} end
redis.call('HDEL', KEYS[2], 'd')
return {'ok'}
