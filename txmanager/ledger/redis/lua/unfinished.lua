-- unfinished: which intents have attempts and no end yet.
-- Keys   1 lane (hash)  2 queue (stream)  3 open (set)
-- Args   1 epoch  2 token
-- Reply  {"ok", id, ...} | {"fenced", owner, epoch}
--@include _fence
--@include _unfinished
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local reply = unfinished(KEYS[1], KEYS[2], KEYS[3])
table.insert(reply, 1, 'ok')
return reply
