-- acknowledge: an archive has these; they need no payload any more, and may be retired.
-- Keys   1 backlog (zset)  2 lane (hash)  3.. record (hash)
-- Args   per record: id, life
-- Reply  how many were acknowledged now
-- Why    a record that is acknowledged under another life, or before its end, would be lost to the archive
local count = 0
for i = 3, #KEYS do
  local id, life = ARGV[2 * i - 5], ARGV[2 * i - 4]
  local record = redis.call('HMGET', KEYS[i], 's', 'l', 'arc')
  -- first a write that needs no memory: a full server is emptied by this
  if redis.call('ZREM', KEYS[1], life .. ' ' .. id) == 1 then
    count = count + 1
  elseif (record[1] == 'done' or record[1] == 'failed' or record[1] == 'cancelled') and record[2] == life
    and not record[3] then
    redis.call('HDEL', KEYS[i], 'p')
    redis.call('HSET', KEYS[i], 'arc', '1')
    redis.call('HINCRBY', KEYS[2], 'arced', 1) -- until it is buried
    count = count + 1
  end
end
return count
