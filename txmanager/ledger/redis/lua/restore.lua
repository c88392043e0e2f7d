-- restore: put back what the records say of a budget; nothing that stands is lowered.
-- Keys   1 book (hash)  2 spent (hash)  3 agenda (zset)
-- Args   1 name  2 span ms  3 bucket ms  4 when to look ms  5 number of costs  then per cost: bucket, units
--        then per open charge: life, units, born, id
-- Reply  {"ok"}
-- Why    what a server forgot was spent all the same
--@include _time
--@include _replication
--@include _budget
local at = 6
for _ = 1, tonumber(ARGV[5]) do
  if number(redis.call('HGET', KEYS[2], ARGV[at])) < tonumber(ARGV[at + 1]) then
    redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1])
  end
  at = at + 2
end
while at <= #ARGV do
  local life = ARGV[at]
  if not redis.call('HGET', KEYS[1], 'o:' .. life) then
    redis.call('HINCRBY', KEYS[1], 'open', ARGV[at + 1])
    redis.call('HSET', KEYS[1], 'o:' .. life, ARGV[at + 1] .. ' 1 ' .. ARGV[at + 2] .. ' ' .. ARGV[at + 3])
    redis.call('ZADD', KEYS[3], digits(clock() + ARGV[4]), 'o ' .. life .. ' ' .. ARGV[1])
  end
  at = at + 4
end
redis.call('HSET', KEYS[1], 'per', ARGV[2] .. ' ' .. ARGV[3])
rest(KEYS[1], KEYS[2])
return {'ok'}
