-- stale: the open claims of one home that are older than a limit.
-- Keys   1 open (zset)
-- Args   1 age ms  2 how many to skip  3 count
-- Reply  {id, ...}
--@include _time
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. digits(clock() - ARGV[1]), 'LIMIT', ARGV[2], ARGV[3])
