-- publish: tell everybody what a lane is like now, or that it is parked; older news never overwrites newer.
-- Keys   1 registry (hash)  2 revision (string)  3 changes (stream)  4 parked (hash)
-- Args   1 lane  2 revision of the lane  3 route (json)  4 "parked" | ""
-- Reply  1 when it was news, else 0
-- Why    two changes of a lane may reach the registry in either order; the later one must stand
--@include _changes
redis.call('HDEL', KEYS[1], '') -- needs no memory: a full server must still let a lane be stopped
local to, from = KEYS[1], KEYS[4]
if ARGV[4] == 'parked' then to, from = from, to end
local before, route = string.match(redis.call('HGET', to, ARGV[1]) or '', '^(%d+) (.*)$')
local other = string.match(redis.call('HGET', from, ARGV[1]) or '', '^%d+')
if before and tonumber(before) > tonumber(ARGV[2]) then return 0 end
if other and tonumber(other) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', to, ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
redis.call('HDEL', from, ARGV[1])
if route ~= ARGV[3] then changed(KEYS[2], KEYS[3], ARGV[1]) end
return 1
