-- reserve: hand out one number of a keyless lane to one token.
-- Keys   1 lane (hash)  2 reservations (hash)  3 deadlines (zset)  4 reuse (zset)  5 line (zset)  [6 owned (set)]
-- Args   1 token  2 ttl ms  3 the chain's count | ""  4 seed of a new counter | ""  5 how many its owner may have | ""
-- Reply  {"reserved", nonce, until, was} | {"sent", nonce} | {"over"} | {"cold"} | {"many"} | {"refused", state} |
--        {"rolled_back", stored, found} | {"unknown"} | {"signing"}
-- Why    read and write in two steps, two callers get one number; and a chain that lags must not lower the counter
--@include _time
--@include _decimal
--@include _replication
--@include _held
--@include _numbers
local entry = held(KEYS[2], ARGV[1])
if entry then
  redis.call('HINCRBY', KEYS[1], 'touch', 1)
  if entry.state == 'reserved' then return {'reserved', entry.nonce, entry.till, ''} end
  if entry.state == 'sent' then return {'sent', entry.nonce} end
  return {'over'}
end
local why = stopped()
if why then return why end
if ARGV[4] == '' and not redis.call('HGET', KEYS[1], 'cursor') then return {'cold'} end
local now = clock()
expire(now)
if has_all(ARGV[1], ARGV[5]) then return {'many'} end
own(ARGV[1])
local nonce, was = hand_out(ARGV[3], ARGV[4])
local till = digits(now + ARGV[2])
keep(KEYS[2], KEYS[3], ARGV[1], nonce, 'reserved', digits(now), till, '')
return {'reserved', nonce, till, was}
