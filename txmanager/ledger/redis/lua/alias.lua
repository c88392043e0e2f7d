-- alias: let a caller's own key stand for the key its payload implies.
-- Keys   1 home (string)  2 open (zset)
-- Args   1 id  2 fingerprint  3 target id
-- Reply  {"alias", target} | {"renewed", lane, life, born} | {"final", home} | {"conflict"}
-- Why    written before the target's claim, so that the caller's key can never start a second life
--@include _time
local home = redis.call('GET', KEYS[1])
local now = digits(clock())
if home then
  local fingerprint, life, born, target, final = string.match(home, '^(%S+) (%S+) (%S+) (%S+)\n?(.*)$')
  if fingerprint ~= ARGV[2] then return {'conflict'} end
  if final ~= '' then
    redis.call('SETRANGE', KEYS[1], 0, string.sub(home, 1, 1)) -- a write, so that a WAIT behind it means something
    return {'final', home}
  end
  redis.call('SET', KEYS[1], table.concat({fingerprint, life, now, target}, ' '))
  redis.call('ZADD', KEYS[2], now, ARGV[1])
  if life ~= 'alias' then return {'renewed', target, life, now} end
  return {'alias', target}
end
redis.call('SET', KEYS[1], table.concat({ARGV[2], 'alias', now, ARGV[3]}, ' '))
redis.call('ZADD', KEYS[2], now, ARGV[1])
return {'alias', ARGV[3]}
