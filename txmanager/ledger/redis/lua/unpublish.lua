-- unpublish: take a lane that was deleted out of the registry.
-- Keys   1 registry (hash)  2 revision (string)  3 changes (stream)  4 parked (hash)
-- Args   1 lane
-- Reply  1 when it was there, else 0
--@include _changes
local gone = redis.call('HDEL', KEYS[1], ARGV[1]) + redis.call('HDEL', KEYS[4], ARGV[1])
if gone == 0 then return 0 end
changed(KEYS[2], KEYS[3], ARGV[1])
return 1
