-- record_attempts: write signed bytes ahead of their broadcast, all or nothing, and move the cursor.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 open (set)  5.. record (hash) of each attempt
-- Args   1 epoch  2 token  3 cursor  4 cursor after  then per attempt: life, stream id, nonce, hash,
--        attempt (blob, begins with its purpose), counted, number of deaths, then per death: attempt name, proof (json)
--        at the end, for one attempt of an entry that a wake-up brought: SHA-1 of the entry's fields and values, by line
-- Reply  {"ok", cursor} | {"refused", entry, why} | {"rolled_back", stored, found} | {"fenced", owner, epoch}
-- Why    what is not recorded may be forgotten by a crash; what is recorded twice may be paid twice
--@include _time
--@include _decimal
--@include _fence
--@include _replication
--@include _event
--@include _record_id
local out, lane = fenced(KEYS[1], ARGV[1], ARGV[2], 'cursor', 'replid', 'state', 'upto', 'keyless', 'schema', 'told',
  'signed')
if out then return out end

local writes, at = {}, 5
for i = 5, #KEYS do
  local blob, count, deaths = ARGV[at + 4], tonumber(ARGV[at + 6]), nil
  if count > 0 then
    deaths = {}
    for d = 1, count do deaths[ARGV[at + 5 + 2 * d]] = ARGV[at + 6 + 2 * d] end
  end
  writes[i - 4] = {key = KEYS[i], id = id_of(KEYS[i]), life = ARGV[at], sid = ARGV[at + 1], nonce = ARGV[at + 2],
    hash = ARGV[at + 3], blob = blob, purpose = string.match(blob, '^%a+'), counted = ARGV[at + 5], deaths = deaths,
    field = 'a:' .. ARGV[at + 2] .. ':' .. ARGV[at + 3]}
  at = at + 7 + 2 * count
end

local heard = ARGV[at]
local recorded = 0
for _, write in ipairs(writes) do
  local there, life
  if write.purpose == 'first' then -- a queued intent has no attempts: three fields tell all
    local read = redis.call('HMGET', write.key, 's', 'l', write.field)
    write.status, life, there = read[1], read[2], read[3]
  else
    local record, fields = {}, redis.call('HGETALL', write.key)
    for i = 1, #fields, 2 do record[fields[i]] = fields[i + 1] end
    write.status, life, there, write.record = record['s'], record['l'], record[write.field], record
  end
  write.ours = life == write.life and write.status ~= 'retired'
  if write.ours and there then recorded = recorded + 1 end
end
if recorded > 0 and recorded == #writes then
  redis.call('HDEL', KEYS[1], 'settling') -- as below: a full server must answer a replay, too
  redis.call('HINCRBY', KEYS[1], 'touch', 1)
  return {'ok', lane[1]}
end

local found = replication_id()
if lane[2] ~= found then return {'rolled_back', lane[2], found} end
local firsts = {}
for _, write in ipairs(writes) do
  if write.purpose == 'first' or write.purpose == 'given' then firsts[#firsts + 1] = write end
  if (write.purpose == 'given') ~= (lane[5] == '1') then
    return {'refused', write.id, 'is ' .. write.purpose .. ', which this lane does not take'}
  end
end
if lane[3] == 'quarantined' then return {'refused', 'lane', 'the lane is quarantined'} end
if lane[3] == 'paused' and #firsts > 0 then return {'refused', 'lane', 'the lane is paused'} end
if lane[1] ~= ARGV[3] and lane[5] ~= '1' then -- there, reservations move it
  return {'refused', 'cursor', 'stands at ' .. (lane[1] or 'nothing') .. ', not at ' .. ARGV[3]}
end
local oldest = #firsts > 0 and redis.call('XRANGE', KEYS[2], '(' .. lane[4], '+', 'COUNT', #firsts)
for i, write in ipairs(firsts) do
  if not oldest[i] or oldest[i][1] ~= write.sid then return {'refused', write.id, 'not the oldest queued entries'} end
end
if heard and redis.sha1hex(table.concat(oldest[1][2], '\n')) ~= heard then
  return {'refused', firsts[1].id, 'not what its wake-up said'}
end

local last
local seen = {}
for _, write in ipairs(writes) do
  local record, status, shares, rival, alive = write.record or {}, write.status, false, false, false
  for field in pairs(record) do
    local name, nonce = string.match(field, '^a:((%d+):.+)$')
    if nonce then
      local dead = record['d:' .. name] or (write.deaths and write.deaths[name])
      if nonce == write.nonce then
        shares = true
        if not dead then rival = true end
      end
      if not dead then alive = true end
    end
  end
  if not write.ours then return {'refused', write.id, 'no such record'} end
  if seen[write.id] then return {'refused', write.id, 'is in the batch twice'} end
  seen[write.id] = true
  if write.purpose == 'first' or write.purpose == 'given' then
    if status ~= 'queued' then return {'refused', write.id, 'is ' .. status .. ', not queued'} end
  elseif status ~= 'inflight' and (status ~= 'held' or write.purpose == 'replace') then
    return {'refused', write.id, 'is ' .. status .. ', not inflight'}
  end
  if status == 'held' and not record['d'] and not record['c'] then -- what was set aside unsigned never has either
    return {'refused', write.id, 'is held, and nobody asked for an attempt'}
  end
  if write.purpose == 'resign' and alive then
    return {'refused', write.id, 'has an attempt that is not proven dead'}
  end
  if write.purpose == 'replace' and not rival then
    return {'refused', write.id, 'has no live attempt at nonce ' .. write.nonce .. ' to replace'}
  end
  local outbids = shares and (write.purpose == 'replace' or write.purpose == 'noop')
  if not outbids and write.purpose ~= 'given' then -- whose number was reserved
    if below(write.nonce, ARGV[3]) or (last and not below(last, write.nonce)) then
      return {'refused', write.id, 'nonce ' .. write.nonce .. ' is below the cursor'}
    end
    last = write.nonce
  end
end

local now, opened = clock(), {}
local today = digits(now)
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory: what is written ahead now is what frees memory later
for _, write in ipairs(writes) do
  if write.purpose == 'first' then
    redis.call('HSET', write.key, write.field, write.blob, 'u', today, 's', 'inflight')
  else
    local set = {write.field, write.blob, 'u', today}
    for name, proof in pairs(write.deaths or {}) do
      if write.record['a:' .. name] then -- a proof is about bytes that were recorded, never about those to come
        set[#set + 1] = 'd:' .. name
        set[#set + 1] = proof
      end
    end
    if write.purpose ~= 'noop' then
      set[#set + 1] = 's'
      set[#set + 1] = 'inflight'
      if write.record['h'] then redis.call('HDEL', write.key, 'h') end
    end
    redis.call('HSET', write.key, unpack(set))
    if write.counted == '1' then redis.call('HINCRBY', write.key, 'r', 1) end
  end
  if write.purpose == 'first' or write.purpose == 'given' then opened[#opened + 1] = write.id end
  if write.purpose ~= 'noop' and write.status ~= 'inflight' then event(write.id, 'inflight', write.hash, '') end
end
local kept = lane[5] ~= '1' and {'cursor', ARGV[4]} or {}
local function keep_too(field, value) kept[#kept + 1], kept[#kept + 2] = field, value end
if tonumber(lane[6]) >= 2 then
  keep_too('signed', (lane[8] or 0) + #opened)
else
  for from = 1, #opened, 500 do -- what Lua can unpack has a limit
    redis.call('SADD', KEYS[4], unpack(opened, from, math.min(from + 499, #opened)))
  end
end
if #firsts > 0 then keep_too('upto', firsts[#firsts].sid) end
local place = tell(KEYS[1], KEYS[3], now, lane[6], lane[7])
if place then keep_too('told', place) end
if #kept > 0 then redis.call('HSET', KEYS[1], unpack(kept)) end
return {'ok', lane[5] == '1' and lane[1] or ARGV[4]}
