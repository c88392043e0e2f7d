-- room: what an owner's live intents use of a lane's queue.
-- Keys   1 lane (hash)  2 queue (stream)  3 open (set)
-- Args   1 owner
-- Reply  {intents, bytes}
-- Why    a worker of an older release ends intents without giving their room back: a lane without a live intent owes nothing
if redis.call('XLEN', KEYS[2]) == 0 and redis.call('SCARD', KEYS[3]) == 0 then return {'0', '0'} end
local used = redis.call('HMGET', KEYS[1], 'n:' .. ARGV[1], 'b:' .. ARGV[1])
return {used[1] or '0', used[2] or '0'}
