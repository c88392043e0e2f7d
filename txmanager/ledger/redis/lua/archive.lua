-- archive: let final records of a lane wait for an archive, or no longer.
-- Keys   1 lane (hash)  2 backlog (zset)
-- Args   1 how many may wait | ""
-- Reply  {"ok"} | {"unknown"}
if redis.call('HEXISTS', KEYS[1], 'spec') == 0 then return {'unknown'} end
redis.call('HINCRBY', KEYS[1], 'touch', 1)
if ARGV[1] ~= '' then
  redis.call('HSET', KEYS[1], 'archive', ARGV[1])
else
  redis.call('HDEL', KEYS[1], 'archive', 'lost')
  redis.call('DEL', KEYS[2])
end
return {'ok'}
