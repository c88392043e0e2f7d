-- recycle: take back a number that was not sent; with "turn", end a turn or leave the line.
-- Keys   1 lane (hash)  2 reservations (hash)  3 deadlines (zset)  4 reuse (zset)  5 line (zset)
-- Args   1 token  2 "turn" | ""
-- Reply  {"recycled", nonce | "", cursor | ""} | {"sent", nonce} | {"over"} | {"unknown"}
-- Why    a late duplicate would give a number to a second caller, and bytes that may land own theirs for ever
--@include _time
--@include _decimal
--@include _held
--@include _numbers
if redis.call('HEXISTS', KEYS[1], 'spec') == 0 then return {'unknown'} end
local entry = held(KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory: a full server must still take numbers back
redis.call('HINCRBY', KEYS[1], 'touch', 1)
if not entry or entry.state == 'over' then return {'over'} end
local mine = redis.call('HGET', KEYS[1], 'turn') == ARGV[1]
if entry.state == 'waiting' then
  if ARGV[2] ~= 'turn' then return {'over'} end
  over(ARGV[1], entry, clock())
  return {'recycled', '', ''}
end
if ARGV[2] == 'turn' and not mine then return {'over'} end
if entry.state == 'sent' then
  if ARGV[2] == 'turn' then redis.call('HDEL', KEYS[1], 'turn', 'turn_until') end
  return {'sent', entry.nonce}
end
free(entry.nonce)
over(ARGV[1], entry, clock())
return {'recycled', entry.nonce, redis.call('HGET', KEYS[1], 'cursor')}
