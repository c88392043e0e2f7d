-- move: give the open claim of a closed lane another lane.
-- Keys   1 home (string)  2 open (zset)
-- Args   1 id  2 life  3 old lane  4 new lane
-- Reply  {"renewed", lane, life, born} | {"final", home} | {"conflict"}
-- Why    compare-and-set: two producers may find the closed lane at once, one choice must stand
--@include _time
local home = redis.call('GET', KEYS[1])
if not home then return {'conflict'} end
local fingerprint, life, born, lane, final = string.match(home, '^(%S+) (%S+) (%S+) (%S+)\n?(.*)$')
if life ~= ARGV[2] then return {'conflict'} end
if final ~= '' then
  redis.call('SETRANGE', KEYS[1], 0, string.sub(home, 1, 1)) -- a write, so that a WAIT behind it means something
  return {'final', home}
end
if lane == ARGV[3] then
  lane, born = ARGV[4], digits(clock())
  redis.call('ZADD', KEYS[2], born, ARGV[1])
end
redis.call('SET', KEYS[1], table.concat({fingerprint, life, born, lane}, ' '))
return {'renewed', lane, life, born}
