-- claim: the first caller owns the key; a later one with the same payload learns what became of it.
-- Keys   1 home (string)  2 open (zset)
-- Args   1 id  2 fingerprint  3 lane  4 life
-- Reply  {"claimed"|"renewed", lane, life, born} | {"final", home} | {"alias", target} | {"conflict"}
-- Why    two producers with one key must end up with one lane, one life, one record
--@include _time
local home = redis.call('GET', KEYS[1])
local now = digits(clock())
if not home then
  redis.call('SET', KEYS[1], table.concat({ARGV[2], ARGV[4], now, ARGV[3]}, ' '))
  redis.call('ZADD', KEYS[2], now, ARGV[1])
  return {'claimed', ARGV[3], ARGV[4], now}
end
local fingerprint, life, born, lane, final = string.match(home, '^(%S+) (%S+) (%S+) (%S+)\n?(.*)$')
if fingerprint ~= ARGV[2] then return {'conflict'} end
if final ~= '' then
  redis.call('SETRANGE', KEYS[1], 0, string.sub(home, 1, 1)) -- a write, so that a WAIT behind it means something
  return {'final', home}
end
redis.call('SET', KEYS[1], table.concat({fingerprint, life, now, lane}, ' '))
redis.call('ZADD', KEYS[2], now, ARGV[1])
if life == 'alias' then return {'alias', lane} end
return {'renewed', lane, life, now}
