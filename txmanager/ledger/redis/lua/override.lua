-- override: put an operator's limit in place of the configured one, or take it away.
-- Keys   1 book (hash)  2 spent (hash)
-- Args   1 limit | ""  2 the override that was read | ""
-- Reply  1 | 0 (another one stands)
-- Why    two operators who raise a budget at once must not undo each other
--@include _time
--@include _replication
--@include _budget
local stands = redis.call('HGET', KEYS[1], 'over') or ''
if stands ~= ARGV[1] and stands ~= ARGV[2] then return 0 end
if ARGV[1] == '' then redis.call('HDEL', KEYS[1], 'over') else redis.call('HSET', KEYS[1], 'over', ARGV[1]) end
redis.call('HINCRBY', KEYS[1], 'touch', 1)
rest(KEYS[1], KEYS[2])
return 1
