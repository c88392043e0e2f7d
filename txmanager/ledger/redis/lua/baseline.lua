-- baseline: set the cursor of a lane that has none; an operator may also raise it, and vouches for what is below.
-- Keys   1 lane (hash)
-- Args   1 epoch  2 token  3 cursor  4 "operator" | ""
-- Reply  {"ok", cursor} | {"fenced", owner, epoch}
-- Why    the chain is asked for a nonce once; afterwards only write-aheads move the cursor, and never down
--@include _decimal
--@include _fence
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local lane = redis.call('HMGET', KEYS[1], 'cursor', 'baseline')
local cursor, baseline = lane[1], lane[2]
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory, as everything that lets a lane go on
if not cursor then
  redis.call('HSET', KEYS[1], 'cursor', ARGV[3], 'baseline', ARGV[3])
  cursor = ARGV[3]
elseif ARGV[4] == 'operator' then
  if below(cursor, ARGV[3]) then cursor = ARGV[3] end
  if not baseline or below(baseline, ARGV[3]) then baseline = ARGV[3] end
  redis.call('HSET', KEYS[1], 'cursor', cursor, 'baseline', baseline)
else
  redis.call('HINCRBY', KEYS[1], 'touch', 1)
end
return {'ok', cursor}
