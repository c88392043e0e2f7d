-- mempool_admit: store transactions in array order; grant a head among them when nothing better waits.
-- Keys   as in _mempool
-- Args   1 limits  2 owner | ""  3 call  4 how many counts, then each: address count block height pending orphaned
--        then each offer: hash sender nonce price "the highest price it replaces" bytes
-- Reply  {{word, base, gapped, replaced, state}, ...}, {grant, ...}
-- Why    capacity, price order and the sender's turn are chain-wide: two instances that check and then write would
--        both accept the last place, and both send
--@include _time
--@include _decimal
--@include _replication
--@include _mempool
--@include _mempool_server
--@include _mempool_grant
--@include _mempool_observe
mind_the_server()
local owner, call = ARGV[2], ARGV[3]
local counts, at = {}, 5
for _ = 1, tonumber(ARGV[4]) do
  counts[ARGV[at]] = {
    count = ARGV[at + 1], block = ARGV[at + 2], height = ARGV[at + 3], pending = ARGV[at + 4], orphaned = ARGV[at + 5]
  }
  at = at + 6
end
local cold, fresh = {}, {}
local function waits() return redis.call('ZCARD', KEYS[8]) + redis.call('ZCARD', KEYS[9]) end
local function cheapest(key) return string.sub(redis.call('ZRANGE', key, 0, 0)[1] or '', 1, 78) end
-- Whom the newcomer purges: the cheapest gapped first, then the cheapest pending; nil when those are not enough.
local function victims(more, room, price, gapped, replaced)
  local excess, excess_bytes = 0, C.waiting_bytes + room - L.kept_bytes
  if more then excess = waits() + 1 - L.capacity end
  local found = {}
  for _, key in ipairs(gapped and {KEYS[8]} or {KEYS[8], KEYS[9]}) do
    local from = 0
    while excess > 0 or excess_bytes > 0 do
      local page = redis.call('ZRANGE', key, from, from + 15)
      for _, member in ipairs(page) do
        if excess <= 0 and excess_bytes <= 0 then break end
        local t = tx(string.sub(member, -66))
        if t ~= replaced then
          if excess <= 0 and t.price >= price then return nil end
          found[#found + 1] = t
          excess = excess - 1
          excess_bytes = excess_bytes - t.size
        end
      end
      from = from + 16
      if #page < 16 then break end
    end
  end
  if excess > 0 or excess_bytes > 0 then return nil end
  return found
end
local function offered(hash, address, nonce, price, beats, raw, name)
  local s, known = sender(address), tx(hash)
  if known and not known.gone then -- rule 1
    if known.call == name then return {'admitted', s.run, known.gapped, '', ''} end
    return {'known', s.run, '0', '', known.state}
  end
  if cold[address] then return {'cold', '0', '0', '', ''} end
  local read = counts[address]
  if s and read then
    observe(s, read)
  elseif not s and read then
    local first = read.count < read.pending and read.pending or read.count
    s = {
      address = address, count = read.count, block = read.block, height = read.height, read = now,
      pending = read.pending, run = first, next = first, paused = 0, done = '-', waiting = 0, waiting_bytes = 0,
      kept_bytes = 0, queued = '-'
    }
  end
  local gapped = s and nonce > s.run
  if not s or (not read and (gapped or now - s.read >= L.count_fresh_ms)) then
    cold[address] = true
    return {'cold', '0', '0', '', ''}
  end
  local held = hold(address)
  if held and held.nonce == nonce then return {'processing', s.run, '0', '', ''} end -- rule 3
  if nonce < s.count then return {'low', s.run, '0', '', ''} end -- rule 4
  local old = newest(s, nonce)
  if old and L.strict and (old.state ~= 'waiting' or old.seq <= C.doubt) then return {'low', s.run, '0', '', ''} end
  if old and old.price > beats then return {'replace_underpriced', s.run, '0', '', ''} end -- rule 5
  local replaced = old and old.state == 'waiting' and old or nil
  local room = replaced and #raw - replaced.size or #raw
  local others = replaced and s.waiting - 1 or s.waiting
  if others >= L.per_sender or (others > 0 and s.waiting_bytes + room > L.sender_bytes) then
    return {'sender_full', s.run, '0', '', ''}
  end
  local full = waits() >= L.capacity
  if gapped and (full or waits() > L.watermark) then -- rule 6
    if redis.call('ZCARD', KEYS[8]) == 0 then return {'gap', s.run, '0', '', ''} end
    if price <= cheapest(KEYS[8]) then return {'underpriced', s.run, '0', '', ''} end
  elseif full then
    local lowest, other = cheapest(KEYS[8]), cheapest(KEYS[9])
    if lowest == '' or (other ~= '' and other < lowest) then lowest = other end
    if price <= lowest then return {'underpriced', s.run, '0', '', ''} end
  end
  local purged = victims(not replaced, room, price, gapped, replaced)
  if not purged then return {'full', s.run, '0', '', ''} end
  for _, t in ipairs(purged) do finish(t, 'purged', '', '') end -- rule 7
  C.seq = C.seq + 1
  local t = {
    hash = hash, sender = address, nonce = nonce, price = price, seq = C.seq, size = #raw, state = 'waiting',
    gapped = '0', at = now, moved = now, tries = 0, sent_at = 0, call = name
  }
  txs[hash], senders[address] = t, s
  redis.call('HSET', KEYS[6], hash, raw)
  redis.call('ZREM', KEYS[12], address)
  redis.call('HDEL', KEYS[14], hash)
  redis.call('ZREM', KEYS[15], hash)
  local hashes = hashes_at(address, nonce)
  redis.call('HSET', KEYS[4], place(address, nonce), hashes and hash .. ' ' .. hashes or hash)
  redis.call('ZADD', KEYS[3], 0, place(address, nonce))
  count(s, t, 1)
  rank(t, nonce > s.run)
  if nonce < s.next then s.next = nonce end
  walk(s)
  if replaced then finish(replaced, 'replaced', '', '') end
  if L.order == 'none' then
    move(t, 'sent')
    walk(s)
  end
  arrange(s)
  fresh[hash] = true
  return {'admitted', s.run, t.gapped, old and old.hash or '', ''}
end
local answers, admitted = {}, {}
for i = at, #ARGV, 6 do
  local name = call .. '.' .. digits((i - at) / 6)
  answers[#answers + 1] = offered(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], name)
  if answers[#answers][1] == 'admitted' then admitted[#admitted + 1] = {ARGV[i + 1], ARGV[i]} end
end
if owner ~= '' then
  for _ = 1, #admitted do
    local s = best()
    if not s or not fresh[head(s).hash] or not grant_best(owner, call, '-') then break end
  end
end
local grants = {}
for _, one in ipairs(admitted) do
  local h = hold(one[1])
  if h and h.call == call and h.owner == owner then grants[#grants + 1] = tell(one[1], h) end
end
redis.call('HINCRBY', KEYS[1], 'touch', 1) -- durability counts a write, also of a repeat
flush()
return {answers, grants}
