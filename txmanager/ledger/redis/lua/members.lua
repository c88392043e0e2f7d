-- members: who lives, and a digest of what each can serve; forget those that do not live.
-- Keys   1 members (hash)  2 deadlines (zset)  3 versions (hash)
-- Reply  {name, digest | "", ...}
-- Why    a reader asks for the lanes of a digest that it does not know; release 0.1.0 writes none
--@include _time
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', digits(clock()))) do
  redis.call('HDEL', KEYS[1], name)
  redis.call('ZREM', KEYS[2], name)
end
local versions, reply = redis.call('HGETALL', KEYS[3]), {}
local digests = {}
for i = 1, #versions, 2 do
  local name, digest, size = versions[i], string.match(versions[i + 1], '^(%S+) (%d+)$')
  local found = redis.call('HSTRLEN', KEYS[1], name)
  if found == 0 then redis.call('HDEL', KEYS[3], name) end -- gone, whoever forgot it
  if found == tonumber(size) then digests[name] = digest end -- else release 0.1.0 wrote it since
end
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  reply[#reply + 1] = name
  reply[#reply + 1] = digests[name] or ''
end
return reply
