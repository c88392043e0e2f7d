-- reclaim: on an operator's word, hand out again numbers that the chain did not keep and nobody holds.
-- Keys   1 lane (hash)  2 reservations (hash)  3 deadlines (zset)  4 reuse (zset)  5 line (zset)
-- Args   1 epoch  2 token  3 the chain's count  then numbers
-- Reply  {"ok", how many} | {"fenced", owner, epoch}
-- Why    a count that a reorg took back left numbers below the counter that nothing would ever be sent for
--@include _time
--@include _decimal
--@include _fence
--@include _held
--@include _numbers
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local lane, live, moved = redis.call('HMGET', KEYS[1], 'cursor', 'landed'), {}, 0
for _, told in ipairs(redis.call('HVALS', KEYS[2])) do
  local nonce, state = string.match(told, '^(%S+) (%S+)')
  if state == 'reserved' or state == 'sent' then live[nonce] = true end
end
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory, as everything that lets a lane go on
redis.call('HSET', KEYS[1], 'floor', ARGV[3])
for i = 4, #ARGV do
  local nonce = ARGV[i]
  if lane[1] and below(nonce, lane[1]) and not live[nonce] and not spent(nonce, ARGV[3], lane[2]) then
    moved = moved + redis.call('ZADD', KEYS[4], 0, padded(nonce))
  end
end
return {'ok', moved}
