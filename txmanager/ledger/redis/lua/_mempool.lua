-- The book of a mempool. Keys of every script that includes this:
--   1 counters (hash)  2 senders (hash)  3 nonces (zset, lexical "address:nonce")  4 slots (hash, hashes by
--   "address:nonce", the newest first)  5 transactions (hash)  6 bytes (hash)  7 ready (zset, lexical, best last)
--   8 gapped  9 pending (zsets, lexical, cheapest first)  10 holds (hash)  11 due (zset)  12 aging (zset)
--   13 alive (hash)  14 ended (hash)  15 ends (zset)
-- Args   1 limits (json)
-- Nonces are 20 digits and prices 78, so that their order as text is their order. What was read is kept in tables and
-- written once, by `flush`, after everything was decided.
local L = cjson.decode(ARGV[1])
local now = clock()
local senders, txs, holds, words = {}, {}, {}, {}
local counted = {'waiting', 'processing', 'unsure', 'sent', 'landed'}
local sums = {'seq', 'fence', 'quiet', 'doubt', 'waiting_bytes', 'kept_bytes', unpack(counted)}
local told = redis.call('HMGET', KEYS[1], 'born', 'replid', unpack(sums))
local C = {born = told[1] or '', replid = told[2] or ''}
for i, name in ipairs(sums) do C[name] = tonumber(told[i + 2] or '0') end
if C.born == '' then
  C.born = digits(now)
  C.quiet = now + L.quiet_ms
end
local function later(nonce)
  local low = tonumber(string.sub(nonce, 6)) + 1
  if low < 1e15 then return string.sub(nonce, 1, 5) .. string.format('%015.0f', low) end
  return string.format('%05.0f', tonumber(string.sub(nonce, 1, 5)) + 1) .. '000000000000000'
end
local function place(address, nonce) return address .. ':' .. nonce end
local function cheapness(t)
  return t.price .. ':' .. string.format('%016.0f', 9e15 - t.seq) .. ':' .. t.hash
end
-- Reading and keeping.
local sender_fields = {
  'count', 'block', 'height', 'read', 'pending', 'run', 'next', 'paused', 'done', 'waiting', 'waiting_bytes',
  'kept_bytes', 'queued'
}
local sender_numbers = {'read', 'paused', 'waiting', 'waiting_bytes', 'kept_bytes'}
local tx_fields = {
  'sender', 'nonce', 'price', 'seq', 'size', 'state', 'gapped', 'at', 'moved', 'tries', 'sent_at', 'call'
}
local hold_fields = {'owner', 'fence', 'call', 'nonce', 'hash', 'at', 'till', 'again', 'after'}
local tx_numbers = {'seq', 'size', 'at', 'moved', 'tries', 'sent_at'}
local function line_of(fields) return '^' .. string.rep('(%S+) ', #fields - 1) .. '(%S+)$' end
local sender_line, tx_line, hold_line = line_of(sender_fields), line_of(tx_fields), line_of(hold_fields)
local function unfold(text, line, fields, numbers)
  local found, words_of = {}, {string.match(text, line)}
  for i, name in ipairs(fields) do found[name] = words_of[i] end
  for _, name in ipairs(numbers) do found[name] = tonumber(found[name]) end
  return found
end
local function fold(one, fields)
  local words_of = {}
  for i, name in ipairs(fields) do
    local v = one[name]
    words_of[i] = type(v) == 'number' and digits(v) or v
  end
  return table.concat(words_of, ' ')
end
local function sender(address)
  if senders[address] == nil then
    local text = redis.call('HGET', KEYS[2], address)
    local s = text and unfold(text, sender_line, sender_fields, sender_numbers)
    if s then s.address = address end
    senders[address] = s or false
  end
  return senders[address]
end
local function tx(hash)
  if txs[hash] == nil then
    local text = redis.call('HGET', KEYS[5], hash)
    local t = text and unfold(text, tx_line, tx_fields, tx_numbers)
    if t then t.hash = hash end
    txs[hash] = t or false
  end
  return txs[hash]
end
local function unfold_hold(text) return unfold(text, hold_line, hold_fields, {'at', 'till'}) end
local function hold(address)
  if holds[address] == nil then
    local text = redis.call('HGET', KEYS[10], address)
    holds[address] = text and unfold_hold(text)
  end
  return holds[address]
end
local function release(address)
  redis.call('HDEL', KEYS[10], address)
  holds[address] = false
end
local function flush()
  for address, s in pairs(senders) do
    if s and s.gone then
      redis.call('HDEL', KEYS[2], address)
    elseif s then
      redis.call('HSET', KEYS[2], address, fold(s, sender_fields))
    end
  end
  for hash, t in pairs(txs) do
    if t and t.gone then
      redis.call('HDEL', KEYS[5], hash)
      redis.call('HDEL', KEYS[6], hash)
    elseif t then
      redis.call('HSET', KEYS[5], hash, fold(t, tx_fields))
    end
  end
  local all = {'born', C.born, 'replid', C.replid}
  for i, name in ipairs(sums) do
    local text = digits(C[name])
    if text ~= told[i + 2] then
      all[#all + 1] = name
      all[#all + 1] = text
    end
  end
  redis.call('HSET', KEYS[1], unpack(all))
  if redis.call('ZCARD', KEYS[7]) > 0 then redis.call('PUBLISH', L.wake, 'ask') end
  if #words > 0 then redis.call('PUBLISH', L.word, table.concat(words, '\n')) end
end
local function say(hash)
  words[#words + 1] = hash
end
local function floor_of(s) return s.count < s.pending and s.pending or s.count end
local function hashes_at(address, nonce) return redis.call('HGET', KEYS[4], place(address, nonce)) end
local function newest(s, nonce)
  local hashes = hashes_at(s.address, nonce)
  return hashes and tx(string.match(hashes, '^%S+'))
end
-- The nonces that have transactions, from one on.
local function nonces_from(s, nonce)
  local found = redis.call('ZRANGEBYLEX', KEYS[3], '[' .. place(s.address, nonce), '(' .. s.address .. ';')
  for i, member in ipairs(found) do found[i] = string.sub(member, -20) end
  return found
end
-- Orders and sums.
local function rank(t, gapped)
  t.gapped = gapped and '1' or '0'
  redis.call('ZADD', gapped and KEYS[8] or KEYS[9], 0, cheapness(t))
  if gapped then redis.call('ZADD', KEYS[12], digits(t.moved + L.idle_ms), t.hash) end
end
local function unrank(t)
  redis.call('ZREM', KEYS[12], t.hash)
  if t.state == 'waiting' then
    redis.call('ZREM', t.gapped == '1' and KEYS[8] or KEYS[9], cheapness(t))
    t.gapped = '0'
  end
end
local function count(s, t, sign)
  C[t.state] = C[t.state] + sign
  if t.state == 'waiting' then
    s.waiting = s.waiting + sign
    s.waiting_bytes = s.waiting_bytes + sign * t.size
    C.waiting_bytes = C.waiting_bytes + sign * t.size
  else
    s.kept_bytes = s.kept_bytes + sign * t.size
    C.kept_bytes = C.kept_bytes + sign * t.size
  end
end
local function wake_at(s, at)
  local due = redis.call('ZSCORE', KEYS[11], s.address)
  if not due or tonumber(due) > at then redis.call('ZADD', KEYS[11], digits(at), s.address) end
end
local function set_gapped(t, gapped)
  unrank(t)
  t.moved = now
  rank(t, gapped)
end
-- Both marks go up as far as they may.
local function walk(s)
  local floor = floor_of(s)
  if s.next < s.count then s.next = s.count end
  if s.run < floor then
    for _, nonce in ipairs(nonces_from(s, s.run)) do
      if nonce >= floor then break end
      local t = newest(s, nonce)
      if t.gapped == '1' then set_gapped(t, false) end
    end
    s.run = floor
  end
  local t = newest(s, s.run)
  while t do
    if t.gapped == '1' then set_gapped(t, false) end
    s.run = later(s.run)
    t = newest(s, s.run)
  end
  while true do
    t = newest(s, s.next)
    if t and (t.state == 'sent' or t.state == 'landed') then
      s.next = later(s.next)
    elseif not t and s.next < floor then -- the node has it from somebody else
      local first = redis.call(
        'ZRANGEBYLEX', KEYS[3], '[' .. place(s.address, s.next), '(' .. place(s.address, floor), 'LIMIT', 0, 1
      )[1]
      s.next = first and string.sub(first, -20) or floor
    else
      return
    end
  end
end
local function regap(s)
  for _, nonce in ipairs(nonces_from(s, floor_of(s))) do
    local t = newest(s, nonce)
    local gapped = nonce > s.run
    if t.state == 'waiting' and (t.gapped == '1') ~= gapped then set_gapped(t, gapped) end
  end
end
-- What the sender would send next.
local function head(s)
  if L.order ~= 'nonce' then
    local first
    for _, nonce in ipairs(nonces_from(s, s.count)) do
      local t = newest(s, nonce)
      if (t.state == 'waiting' or t.state == 'unsure') and (not first or t.seq < first.seq) then first = t end
    end
    return first
  end
  local t = newest(s, s.next)
  if not t then return nil end
  if L.next_after == 'count' and s.next > floor_of(s) then return nil end
  return t
end
-- Its head stands in line, or nothing does.
local function arrange(s)
  local t
  if s.paused == 0 and not hold(s.address) then t = head(s) end
  if t and t.state == 'waiting' and s.kept_bytes > 0 and s.kept_bytes + t.size > L.sender_bytes then t = nil end
  local queued = t and t.price .. ':' .. string.format('%016.0f', 9e15 - t.seq) .. ':' .. s.address or '-'
  if queued == s.queued then return end
  if s.queued ~= '-' then redis.call('ZREM', KEYS[7], s.queued) end
  if queued ~= '-' then redis.call('ZADD', KEYS[7], 0, queued) end
  s.queued = queued
end
-- One transaction into another state.
local function move(t, state)
  local s = sender(t.sender)
  count(s, t, -1)
  unrank(t)
  t.state, t.moved = state, now
  count(s, t, 1)
  if state == 'waiting' then
    rank(t, t.nonce > s.run)
  elseif state == 'sent' then
    if t.sent_at == 0 then t.sent_at = now end
    redis.call('ZADD', KEYS[12], digits(t.sent_at + L.idle_ms), t.hash)
    if L.resend_ms > 0 then wake_at(s, now + L.resend_ms) end
  elseif state == 'unsure' then
    redis.call('ZADD', KEYS[12], digits(now + L.idle_ms), t.hash)
  end
  if (state == 'waiting' or state == 'unsure') and t.nonce < s.next then
    s.next = t.nonce < s.count and s.count or t.nonce
  end
  if state == 'sent' or state == 'landed' then say(t.hash) end
end
-- The end of one transaction; what follows it becomes gapped, unless the nonce is used.
local function finish(t, reason, message, code)
  local s = sender(t.sender)
  local at = place(t.sender, t.nonce)
  count(s, t, -1)
  unrank(t)
  t.gone = true
  txs[t.hash] = t
  local left = {}
  for hash in string.gmatch(hashes_at(t.sender, t.nonce), '%S+') do
    if hash ~= t.hash then left[#left + 1] = hash end
  end
  if #left > 0 then
    redis.call('HSET', KEYS[4], at, table.concat(left, ' '))
    if L.resend_ms > 0 then wake_at(s, now + L.resend_ms) end -- what it was to replace is the newest again
  else
    redis.call('HDEL', KEYS[4], at)
    redis.call('ZREM', KEYS[3], at)
    local floor = floor_of(s)
    if floor <= t.nonce and t.nonce < s.run then
      s.run = t.nonce
      regap(s)
    end
    if floor <= t.nonce and t.nonce < s.next then s.next = t.nonce end
  end
  walk(s)
  if not redis.call('ZRANGEBYLEX', KEYS[3], '[' .. s.address .. ':', '(' .. s.address .. ';', 'LIMIT', 0, 1)[1] then
    redis.call('ZADD', KEYS[12], digits(now + L.count_fresh_ms), s.address)
    redis.call('ZREM', KEYS[11], s.address)
    s.paused = 0
  end
  redis.call(
    'HSET', KEYS[14], t.hash,
    t.sender .. ' ' .. t.nonce .. ' ' .. reason .. ' ' .. digits(now) .. '\n' .. code .. '\n' .. message
  )
  redis.call('ZADD', KEYS[15], digits(now), t.hash)
  if redis.call('ZCARD', KEYS[15]) > L.ended_limit then
    for _, hash in ipairs(redis.call('ZRANGE', KEYS[15], 0, 0)) do
      redis.call('HDEL', KEYS[14], hash)
      redis.call('ZREM', KEYS[15], hash)
    end
  end
  say(t.hash)
  arrange(s)
end
