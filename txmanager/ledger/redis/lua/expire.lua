-- expire: take back the numbers of reservations that ran out unused.
-- Keys   1 lane (hash)  2 reservations (hash)  3 deadlines (zset)  4 reuse (zset)  5 line (zset)
-- Reply  how many numbers went to the reuse list | "unknown"
-- Why    nothing above an unused number lands; it must be handed out again even if nobody else reserves
--@include _time
--@include _decimal
--@include _held
--@include _numbers
if redis.call('HEXISTS', KEYS[1], 'spec') == 0 then return 'unknown' end
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory: a full server must still take numbers back
return expire(clock())
