-- mempool_expire: end what was sent, or waited behind a missing nonce, for too long; forget old ends, dead instances and idle senders.
-- Keys   as in _mempool
-- Args   1 limits  2 how many of each kind at most
-- Reply  {hashes that expired, "1" when there is more to do}
-- Why    nobody comes back for what was given up: its room must come back by itself
--@include _time
--@include _mempool
redis.call('ZREM', KEYS[7], '') -- needs no memory: this is what makes room
local most, expired = tonumber(ARGV[2]), {}
local late = redis.call('ZRANGEBYSCORE', KEYS[12], '-inf', digits(now), 'LIMIT', 0, most + 1)
for i = 1, math.min(most, #late) do
  local t = #late[i] == 66 and tx(late[i])
  if t and t.state == 'unsure' and (L.order ~= 'nonce' or t.nonce <= sender(t.sender).run) then
    redis.call('ZADD', KEYS[12], digits(now + L.idle_ms), t.hash) -- it goes again until the chain decides
  elseif t then
    finish(t, 'expired', '', '')
    expired[#expired + 1] = t.hash
  else
    redis.call('ZREM', KEYS[12], late[i])
    local s = sender(late[i])
    if s then s.gone = true end
  end
end
for _, hash in ipairs(redis.call('ZRANGEBYSCORE', KEYS[15], '-inf', digits(now - L.ended_ms), 'LIMIT', 0, most)) do
  redis.call('HDEL', KEYS[14], hash)
  redis.call('ZREM', KEYS[15], hash)
end
local alive = redis.call('HGETALL', KEYS[13])
for i = 1, #alive, 2 do
  local last = tonumber(string.match(alive[i + 1], '%d+$'))
  if last + L.ended_ms <= now then redis.call('HDEL', KEYS[13], alive[i]) end
end
flush()
return {expired, #late > most and '1' or '0'}
