-- settle: store outcomes, each once, and leave the queue.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 open (set)  5 finals (set)  6.. record (hash)
-- Args   1 epoch  2 token  3 landed nonce | ""  4 final channel  5 "unseen" if no chain shows some of the ends | ""
--        6, 7, 8 what done, failed and cancelled may follow  then per outcome: life, status, outcome (json),
--        landed attempt name | "", error code, number of deaths, then per death: name, proof
-- Reply  {"ok", at, "settled" | {"already"|"conflict"|"refused", status} | {"gone"}, ...} |
--        {"rolled_back", stored, found} | {"fenced", owner, epoch}
-- Why    a worker that paused past its lease must not overwrite its successor's result
--@include _time
--@include _decimal
--@include _fence
--@include _replication
--@include _event
--@include _finish
--@include _room
--@include _record_id
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
if ARGV[5] ~= '' then -- an end that only this ledger knows rests on what it remembers of the attempts
  local stored, found = redis.call('HGET', KEYS[1], 'replid'), replication_id()
  if stored ~= found then return {'rolled_back', stored, found} end
end
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory: a full server must still let work end
redis.call('HINCRBY', KEYS[1], 'touch', 1)
local archive = redis.call('HGET', KEYS[1], 'archive')
local now, at, finals, sids, shares = digits(clock()), 9, {}, {}, {}
local replies, none = {'ok', now}, {}
local allowed = {done = ARGV[6], failed = ARGV[7], cancelled = ARGV[8]}

local function proven(key, name, status, deaths, landed)
  if name ~= '' then return status ~= 'cancelled' and landed and string.match(landed, '^(%a+)') ~= 'noop' end
  if status == 'done' then return false end
  local known = {}
  for _, field in ipairs(redis.call('HKEYS', key)) do known[field] = true end
  for field in pairs(known) do
    local attempt = string.match(field, '^a:(.+)$')
    if attempt and not known['d:' .. attempt] and not deaths[attempt] then
      local purpose = string.match(redis.call('HGET', key, field), '^(%a+)')
      if purpose ~= 'noop' then return false end
    end
  end
  return true
end

for i = 6, #KEYS do
  local life, status, outcome, name, err = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local deaths, count = none, tonumber(ARGV[at + 5])
  if count > 0 then
    deaths = {}
    for d = 1, count do deaths[ARGV[at + 4 + 2 * d]] = ARGV[at + 5 + 2 * d] end
  end
  at = at + 6 + 2 * count
  local record = redis.call('HMGET', KEYS[i], 's', 'l', 'i', 'd', 'a:' .. name, 'q')
  local before = record[1]
  if before == 'retired' or record[2] ~= life then
    replies[#replies + 1] = {'gone'}
  elseif before == 'done' or before == 'failed' or before == 'cancelled' then
    replies[#replies + 1] = {before == status and 'already' or 'conflict', before}
  elseif not string.find(allowed[status], ' ' .. before .. ' ', 1, true)
    or not proven(KEYS[i], name, status, deaths, record[5]) then
    replies[#replies + 1] = {'refused', before}
  else
    for death, proof in pairs(deaths) do
      if redis.call('HEXISTS', KEYS[i], 'a:' .. death) == 1 then redis.call('HSET', KEYS[i], 'd:' .. death, proof) end
    end
    if record[4] then redis.call('HDEL', KEYS[i], 'd') end -- the operator's word has nothing left to act on
    if archive then
      keep_payload(KEYS[2], KEYS[i], record[3])
    elseif before == 'held' then
      redis.call('HDEL', KEYS[i], 'p') -- of one that was set aside
    end
    local id = id_of(KEYS[i])
    finish(KEYS[3], KEYS[i], id, status, outcome, string.match(name, ':(.+)') or '', err, now)
    finals[#finals + 1] = id
    sids[#sids + 1] = record[3]
    if record[6] then shares[#shares + 1] = record[6] end
    replies[#replies + 1] = 'settled'
  end
end
if ARGV[3] ~= '' then
  local landed = redis.call('HGET', KEYS[1], 'landed')
  if not landed or below(landed, ARGV[3]) then redis.call('HSET', KEYS[1], 'landed', ARGV[3]) end
end
if #finals > 0 then
  give_back(KEYS[1], shares)
  leave(KEYS[2], KEYS[4], KEYS[5], finals, sids)
  redis.call('PUBLISH', ARGV[4], table.concat(finals, '\n'))
end
return replies
