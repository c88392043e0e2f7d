-- confirm_lane: a write that changes nothing, so that a WAIT behind it covers all that was read of a lane before it.
-- Keys   1 lane (hash)
-- Reply  nothing
-- Why    what another caller wrote may be lost with this server until replicas have it; nobody is told of it before
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory: a full server must still answer
redis.call('HINCRBY', KEYS[1], 'touch', 1)
return false
