-- book: everything that is known of a keyless lane's numbers, read in one step.
-- Keys   1 lane (hash)  2 reservations (hash)  3 reuse (zset)  4 line (zset)
-- Reply  {spec, keyless, {cursor, floor, turn, checked}, reservations, reuse, how many wait, now}
--@include _time
local lane = redis.call('HMGET', KEYS[1], 'spec', 'keyless', 'cursor', 'floor', 'turn', 'checked')
return {
  lane[1] or '', lane[2] or '', {lane[3] or '', lane[4] or '', lane[5] or '', lane[6] or ''},
  redis.call('HGETALL', KEYS[2]), redis.call('ZRANGE', KEYS[3], 0, -1), redis.call('ZCARD', KEYS[4]), digits(clock())
}
