-- turn: stand in line for a keyless lane, or ask again from the same place; whoever is first gets a number with it.
-- Keys   1 lane (hash)  2 reservations (hash)  3 deadlines (zset)  4 reuse (zset)  5 line (zset)  [6 owned (set)]
-- Args   1 token  2 ttl ms  3 the chain's count | ""  4 seed of a new counter | ""  5 how many its owner may have | ""
--        6 ms a place is kept unasked
-- Reply  {"granted", nonce, until, counter the chain was past | "", fence} | {"waiting", how many are before} | {"sent", nonce} | {"over"} |
--        {"cold"} | {"many"} | {"refused", state} | {"rolled_back", stored, found} | {"unknown"} | {"signing"}
-- Why    a lock that expires must not leave two holders: the number is reserved with the turn and lost with it
--@include _time
--@include _decimal
--@include _replication
--@include _held
--@include _numbers
local now = clock()
local entry = held(KEYS[2], ARGV[1])
local turn = redis.call('HMGET', KEYS[1], 'turn', 'turn_fence')
if entry and entry.state ~= 'waiting' then
  redis.call('HINCRBY', KEYS[1], 'touch', 1)
  if entry.state == 'reserved' and turn[1] == ARGV[1] then
    return {'granted', entry.nonce, entry.till, '', turn[2]}
  end
  if entry.state == 'sent' then return {'sent', entry.nonce} end
  return {'over'}
end
local why = stopped()
if why then return why end
if ARGV[4] == '' and not redis.call('HGET', KEYS[1], 'cursor') then return {'cold'} end
expire(now)
if has_all(ARGV[1], ARGV[5]) then return {'many'} end
own(ARGV[1])
if not redis.call('ZSCORE', KEYS[5], ARGV[1]) then
  redis.call('ZADD', KEYS[5], redis.call('HINCRBY', KEYS[1], 'tickets', 1), ARGV[1])
end
local before = redis.call('ZRANK', KEYS[5], ARGV[1])
if redis.call('HEXISTS', KEYS[1], 'turn') == 1 then before = before + 1 end
if before > 0 then
  keep(KEYS[2], KEYS[3], ARGV[1], '-', 'waiting', digits(now), digits(now + ARGV[6]), '')
  return {'waiting', before}
end
local nonce, was = hand_out(ARGV[3], ARGV[4])
local till = digits(now + ARGV[2])
keep(KEYS[2], KEYS[3], ARGV[1], nonce, 'reserved', digits(now), till, '')
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('HSET', KEYS[1], 'turn', ARGV[1], 'turn_until', till)
redis.call('HINCRBY', KEYS[1], 'turn_fence', 1)
return {'granted', nonce, till, was, redis.call('HGET', KEYS[1], 'turn_fence')}
