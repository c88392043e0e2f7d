-- The numbers of a keyless lane. Keys of every script that includes this: 1 lane  2 reservations  3 deadlines
-- 4 reuse  5 line. Numbers to be reused are padded, so that their order as text is their order.
local function padded(nonce) return string.rep('0', 20 - #nonce) .. nonce end
local function plain(nonce) return (string.gsub(nonce, '^0+(%d)', '%1')) end
-- Back to the numbers that are handed out next, unless the chain is past it.
local function free(nonce)
  local lane = redis.call('HMGET', KEYS[1], 'floor', 'landed')
  if not spent(nonce, lane[1], lane[2]) then redis.call('ZADD', KEYS[4], 0, padded(nonce)) end
end
local function over(token, entry, now)
  keep(KEYS[2], KEYS[3], token, entry.nonce, 'over', entry.at, digits(now + 600000), entry.sent)
  redis.call('ZREM', KEYS[5], token)
  if redis.call('HGET', KEYS[1], 'turn') == token then redis.call('HDEL', KEYS[1], 'turn', 'turn_until') end
end
-- Whatever is due: an unused number goes back, a place in line is lost, a token that is long over is forgotten.
local function expire(now)
  local moved = 0
  local lane = redis.call('HMGET', KEYS[1], 'landed', 'turn_until')
  if lane[2] and tonumber(lane[2]) <= now then redis.call('HDEL', KEYS[1], 'turn', 'turn_until') end
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', digits(now), 'LIMIT', 0, 1000)) do
    local entry = held(KEYS[2], token)
    if entry.state == 'reserved' then
      free(entry.nonce)
      over(token, entry, now)
      moved = moved + 1
    elseif entry.state == 'sent' and not spent(entry.nonce, nil, lane[1]) then
      redis.call('ZADD', KEYS[3], digits(now + 600000), token) -- it may still land
    else
      redis.call('HDEL', KEYS[2], token)
      redis.call('ZREM', KEYS[3], token)
      redis.call('ZREM', KEYS[5], token)
    end
  end
  return moved
end
-- Why nothing is handed out, if so.
local function stopped()
  local lane = redis.call('HMGET', KEYS[1], 'state', 'keyless', 'replid')
  if not lane[1] then return {'unknown'} end
  if lane[2] ~= '1' then return {'signing'} end
  local found = replication_id()
  if lane[3] ~= found then return {'rolled_back', lane[3], found} end
  if lane[1] ~= 'active' and lane[1] ~= 'paused' then return {'refused', lane[1]} end
end
-- The lowest number to be reused, else the counter's; answers it, and where the counter stood if the chain was past it.
local function hand_out(chain, seed)
  local lane = redis.call('HMGET', KEYS[1], 'cursor', 'floor', 'landed')
  local cursor, floor, was = lane[1] or seed, lane[2], ''
  if chain ~= '' then
    if not floor or below(floor, chain) then
      floor = chain
      redis.call('HSET', KEYS[1], 'floor', floor)
    end
    if below(cursor, chain) then
      was, cursor = lane[1] or '', chain
    end
  end
  local nonce
  repeat
    nonce = redis.call('ZRANGE', KEYS[4], 0, 0)[1]
    if nonce then
      redis.call('ZREM', KEYS[4], nonce)
      nonce = plain(nonce)
    end
  until not nonce or not spent(nonce, floor, lane[3])
  redis.call('HSET', KEYS[1], 'cursor', cursor, 'used', digits(clock()))
  if not nonce then
    nonce = cursor
    redis.call('HINCRBY', KEYS[1], 'cursor', 1) -- exact beyond what a Lua number holds; its reply would not be
  end
  return nonce, was
end
-- Whether the owner (KEYS[6], where there is one) has all it may: what was sent, given back or has expired is let go.
local function has_all(token, most)
  if not KEYS[6] or redis.call('SISMEMBER', KEYS[6], token) == 1 then return false end
  if redis.call('SCARD', KEYS[6]) < tonumber(most) then return false end
  for _, known in ipairs(redis.call('SMEMBERS', KEYS[6])) do
    local entry = held(KEYS[2], known)
    if not entry or (entry.state ~= 'reserved' and entry.state ~= 'waiting') then redis.call('SREM', KEYS[6], known) end
  end
  return redis.call('SCARD', KEYS[6]) >= tonumber(most)
end
local function own(token)
  if not KEYS[6] then return end
  redis.call('SADD', KEYS[6], token)
  redis.call('PEXPIRE', KEYS[6], 172800000) -- twice the longest reservation
end
