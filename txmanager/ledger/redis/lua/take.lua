-- take: the oldest queued intents, in order; a repeated take answers the same.
-- Keys   1 lane (hash)  2 queue (stream)
-- Args   1 epoch  2 token  3 count
-- Reply  {"ok", entry, ...} with entry = {stream id, fields} | {"idle", state} | {"fenced", owner, epoch}
-- Why    what is not signed stands behind `upto`, whoever read it before; a zombie that reads changes nothing
--@include _fence
local out, lane = fenced(KEYS[1], ARGV[1], ARGV[2], 'state', 'upto')
if out then return out end
if lane[1] ~= 'active' and lane[1] ~= 'draining' then return {'idle', lane[1]} end
local reply = redis.call('XRANGE', KEYS[2], '(' .. lane[2], '+', 'COUNT', ARGV[3]) or {}
table.insert(reply, 1, 'ok')
return reply
