-- claim: the first caller owns the key; a later one with the same payload learns what became of it.
-- Keys   per claim: home (string), open (zset); claims of one call share a slot
-- Args   per claim: id, fingerprint, lane, life
-- Reply  per claim {"claimed"|"renewed", lane, life, born} | {"final", home} | {"alias", target} | {"conflict"}
-- Why    two producers with one key must end up with one lane, one life, one record
--@include _time
local now = digits(clock())
local function claim(key, open, id, wanted, new_lane, new_life)
  local home = redis.call('GET', key)
  if not home then
    redis.call('SET', key, wanted .. ' ' .. new_life .. ' ' .. now .. ' ' .. new_lane)
    redis.call('ZADD', open, now, id)
    return {'claimed', new_lane, new_life, now}
  end
  local fingerprint, life, born, lane, final = string.match(home, '^(%S+) (%S+) (%S+) (%S+)\n?(.*)$')
  if fingerprint ~= wanted then return {'conflict'} end
  if final ~= '' then
    redis.call('SETRANGE', key, 0, string.sub(home, 1, 1)) -- a write, so that a WAIT behind it means something
    return {'final', home}
  end
  redis.call('SET', key, fingerprint .. ' ' .. life .. ' ' .. now .. ' ' .. lane)
  redis.call('ZADD', open, now, id)
  if life == 'alias' then return {'alias', lane} end
  return {'renewed', lane, life, now}
end
local replies = {}
for i = 1, #KEYS / 2 do
  local at = 4 * i
  replies[i] = claim(KEYS[2 * i - 1], KEYS[2 * i], ARGV[at - 3], ARGV[at - 2], ARGV[at - 1], ARGV[at])
end
return replies
