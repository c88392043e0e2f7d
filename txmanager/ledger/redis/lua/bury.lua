-- bury: replace final records by tombstones, after their homes keep the answer.
-- Keys   1 finals (set)  2.. record (hash)
-- Args   1 tombstone ms  then per record: id, life, status
-- Reply  how many were buried now
-- Why    a producer that paused between claim and append meets the tombstone, not an empty place
local buried = {}
for i = 2, #KEYS do
  local at = 2 + (i - 2) * 3
  local record = redis.call('HMGET', KEYS[i], 's', 'l')
  if record[1] == ARGV[at + 2] and record[2] == ARGV[at + 1] then
    redis.call('DEL', KEYS[i])
    redis.call('HSET', KEYS[i], 's', 'retired', 'l', ARGV[at + 1])
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    buried[#buried + 1] = ARGV[at]
  end
end
for from = 1, #buried, 500 do -- what Lua can unpack has a limit
  redis.call('SREM', KEYS[1], unpack(buried, from, math.min(from + 499, #buried)))
end
return #buried
