-- publish: tell producers what a lane is like now; older news never overwrites newer.
-- Keys   1 registry (hash)  2 revision (string)  3 changes (stream)
-- Args   1 lane  2 revision of the lane  3 route (json)
-- Reply  1 when it was news, else 0
-- Why    two changes of a lane may reach the registry in either order; the later one must stand
--@include _changes
redis.call('HDEL', KEYS[1], '') -- needs no memory: a full server must still let a lane be stopped
local known = redis.call('HGET', KEYS[1], ARGV[1])
local before, route = string.match(known or '', '^(%d+) (.*)$')
if before and tonumber(before) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
if route ~= ARGV[3] then changed(KEYS[2], KEYS[3], ARGV[1]) end
return 1
