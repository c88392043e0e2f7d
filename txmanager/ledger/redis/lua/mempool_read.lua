-- mempool_read: one view of a mempool, read in one step.
-- Keys   as in _mempool
-- Args   1 limits  2 what: "base" "find" "content" "followed" "totals" "place"  then what it asks for
-- Reply  by view; nothing is written
--@include _time
--@include _mempool
local function base(s) return {s.count, s.block, s.height, s.run, now - s.read < L.count_fresh_ms and '1' or '0'} end
local function entry(t)
  return {
    t.hash, t.sender, t.nonce, t.price, redis.call('HGET', KEYS[6], t.hash), t.state, t.gapped, digits(t.at),
    digits(t.moved), digits(t.tries)
  }
end
local what = ARGV[2]
if what == 'base' then
  local s = sender(ARGV[3])
  return s and base(s) or {}
elseif what == 'find' then
  local t = tx(ARGV[3])
  if t then return {'live', entry(t)} end
  local text = redis.call('HGET', KEYS[14], ARGV[3])
  return text and {'ended', text} or {}
elseif what == 'content' then -- 3 lowest  4 end  5 how many
  local found, from = {}, ARGV[3]
  while #found < tonumber(ARGV[5]) do
    local page = redis.call('ZRANGEBYLEX', KEYS[3], from, ARGV[4], 'LIMIT', 0, 256)
    for _, member in ipairs(page) do
      local t = tx(string.match(redis.call('HGET', KEYS[4], member), '^%S+'))
      local shown = t.state == 'waiting' or t.state == 'processing' or t.state == 'unsure'
      if shown and #found < tonumber(ARGV[5]) then found[#found + 1] = entry(t) end
    end
    if #page < 256 then break end
    from = '(' .. page[#page]
  end
  return found
elseif what == 'followed' then -- 3 lowest  4 how many
  local found, from = {}, ARGV[3]
  while #found < tonumber(ARGV[4]) do
    local first = redis.call('ZRANGEBYLEX', KEYS[3], from, '+', 'LIMIT', 0, 1)[1]
    if not first then break end
    local address = string.sub(first, 1, 42)
    local s, out, gaps = sender(address), {}, '0'
    for _, nonce in ipairs(nonces_from(s, '')) do
      for hash in string.gmatch(hashes_at(address, nonce), '%S+') do
        local t = tx(hash)
        if t.gapped == '1' then gaps = '1' end
        if t.state ~= 'waiting' then out[#out + 1] = {nonce, hash, t.state} end
      end
    end
    found[#found + 1] = {address, base(s), gaps, out}
    from = '(' .. address .. ';'
  end
  return found
elseif what == 'place' then -- every hash of one sender, or of all: 3 lowest  4 end
  local found = {}
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[3], ARGV[3], ARGV[4])) do
    for hash in string.gmatch(redis.call('HGET', KEYS[4], member), '%S+') do found[#found + 1] = hash end
  end
  return found
end
local alive = 0
for _, text in ipairs(redis.call('HVALS', KEYS[13])) do
  if now - tonumber(string.match(text, '%d+$')) < L.alive_ms then alive = alive + 1 end
end
return {
  digits(C.waiting), redis.call('ZCARD', KEYS[8]), digits(C.processing), digits(C.unsure), digits(C.sent),
  digits(C.landed), digits(C.waiting_bytes), digits(C.kept_bytes), redis.call('HLEN', KEYS[2]),
  redis.call('ZCARD', KEYS[7]), alive, digits(told[1] and math.max(0, C.quiet - now) or 0)
}
