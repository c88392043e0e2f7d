-- keep: remember signed bytes that are final, for a while.
-- Keys   1 lane (hash)  2 kept (stream)
-- Args   1 epoch  2 token  3 for how many ms  4 how many bytes at most  then per transaction: nonce, hash, intent, raw
-- Reply  {"ok"} | {"fenced", owner, epoch}
-- Why    a chain that rolls back past finality forgets them, and then nobody else has them
--@include _time
--@include _fence
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local bytes = redis.call('EXISTS', KEYS[2]) == 1 and tonumber(redis.call('HGET', KEYS[1], 'kept')) or 0
for at = 5, #ARGV, 4 do
  redis.call('XADD', KEYS[2], '*', 'nonce', ARGV[at], 'hash', ARGV[at + 1], 'intent', ARGV[at + 2], 'raw', ARGV[at + 3])
  bytes = bytes + #ARGV[at + 3]
end
local since, most = clock() - ARGV[3], tonumber(ARGV[4])
local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
while oldest and (bytes > most or tonumber(string.match(oldest[1], '^%d+')) < since) do
  redis.call('XDEL', KEYS[2], oldest[1])
  bytes = bytes - #oldest[2][8]
  oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('HSET', KEYS[1], 'kept', bytes)
return {'ok'}
