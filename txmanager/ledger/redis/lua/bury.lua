-- bury: replace final records by tombstones, after their homes keep the answer and an archive has them.
-- Keys   1 finals (set)  2 lane (hash)  3 backlog (zset)  4.. record (hash)
-- Args   1 tombstone ms  2 retention ms  then per record: id, life, status
-- Reply  how many were buried now
-- Why    a producer that paused between claim and append meets the tombstone, not an empty place; and an archive
--        that is away for long must neither fill the memory nor lose what went on without it
--@include _time
--@include _home
local lag, now = redis.call('HGET', KEYS[2], 'archive'), clock()
-- so many may go without it: of those that it does not have
local late = lag and redis.call('SCARD', KEYS[1]) - (redis.call('HGET', KEYS[2], 'arced') or 0) - lag or 0
local buried, archived = {}, 0
for i = 4, #KEYS do
  local at = 3 + (i - 4) * 3
  local record = redis.call('HMGET', KEYS[i], 's', 'l', 'arc')
  local waits = lag and not record[3]
  if record[1] == ARGV[at + 2] and record[2] == ARGV[at + 1] and (not waits or late > 0) then
    tombstone(KEYS[i], ARGV[at + 1], ARGV[1])
    if waits then redis.call('ZADD', KEYS[3], digits(now), ARGV[at + 1] .. ' ' .. ARGV[at]) end
    buried[#buried + 1] = ARGV[at]
    if waits then late = late - 1 end
    if record[3] then archived = archived + 1 end
  end
end
for from = 1, #buried, 500 do -- what Lua can unpack has a limit
  redis.call('SREM', KEYS[1], unpack(buried, from, math.min(from + 499, #buried)))
end
if archived > 0 then redis.call('HINCRBY', KEYS[2], 'arced', -archived) end
if lag then -- what its home forgot cannot be archived any more
  local lost = redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. digits(now - ARGV[2]))
  if lost > 0 then redis.call('HINCRBY', KEYS[2], 'lost', lost) end
end
return #buried
