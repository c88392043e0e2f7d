-- settle: store outcomes, each once, and leave the queue; where one server holds homes and lane, retire them as well.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 open (set)  5 finals (set)  then a record (hash) per
--        outcome  then, on one server, per outcome: home (string), open (zset)
-- Args   1 epoch  2 token  3 landed nonce | ""  4 final channel  5 "unseen" if no chain shows some of the ends | ""
--        6, 7, 8 what done, failed and cancelled may follow  9 lane  10 retention ms  11 tombstone ms  12 how many
--        13 "1" if homes are kept for longer than an append may be late | ""
--        then per outcome: life, status, outcome (json), landed attempt name | "", error code, then what its home
--        keeps: fingerprint, born, record (json up to its outcome, and from there to its time) | "" each to retire it
--        later, then number of deaths, then per death: name, proof
-- Reply  {"ok", at, "settled" | "retired" | {"already"|"conflict"|"refused", status} | {"gone"}, ...} |
--        {"rolled_back", stored, found} | {"fenced", owner, epoch}
-- Says   on the final channel: per end a line with its id; of few ends each is followed by "> life fingerprint record",
--        if it went home in this step and a chain shows it. Release 0.1.0 takes that line for one more id
-- Why    a worker that paused past its lease must not overwrite its successor's result; and one step cannot be left
--        half done, so no home has to be durable before a tombstone
--@include _time
--@include _decimal
--@include _fence
--@include _replication
--@include _event
--@include _finish
--@include _room
--@include _record_id
--@include _home
local out, lane = fenced(KEYS[1], ARGV[1], ARGV[2], 'replid', 'archive', 'landed', 'schema', 'told',
  'signed')
if out then return out end
if ARGV[5] ~= '' then -- an end that only this ledger knows rests on what it remembers of the attempts
  local found = replication_id()
  if lane[1] ~= found then return {'rolled_back', lane[1], found} end
end
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory: a full server must still let work end
local archive = lane[2]
-- In a lane of schema 2 each append looks at the home, too.
local no_tombstone = ARGV[13] == '1' and tonumber(lane[4]) >= 2
local many = tonumber(ARGV[12])
local now, at, ended, waiting, sids, shares, told, over = clock(), 14, {}, {}, {}, {}, {}, {}
local unsigned = 0
local today = digits(now)
local replies, none = {'ok', today}, {}
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

for i = 6, many + 5 do
  local life, status, outcome, name, err = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local fingerprint, born, head, tail = ARGV[at + 5], ARGV[at + 6], ARGV[at + 7], ARGV[at + 8]
  local deaths, count = none, tonumber(ARGV[at + 9])
  if count > 0 then
    deaths = {}
    for d = 1, count do deaths[ARGV[at + 8 + 2 * d]] = ARGV[at + 9 + 2 * d] end
  end
  at = at + 10 + 2 * count
  local record = redis.call('HMGET', KEYS[i], 's', 'l', 'i', 'd', 'a:' .. name, 'q')
  local before = record[1]
  if before == 'retired' or record[2] ~= life or over[KEYS[i]] then
    replies[#replies + 1] = {'gone'}
  elseif before == 'done' or before == 'failed' or before == 'cancelled' then
    replies[#replies + 1] = {before == status and 'already' or 'conflict', before}
  elseif not string.find(allowed[status], ' ' .. before .. ' ', 1, true)
    or not proven(KEYS[i], name, status, deaths, record[5]) then
    replies[#replies + 1] = {'refused', before}
  else
    local id, hash = id_of(KEYS[i]), string.match(name, ':(.+)') or ''
    told[#told + 1] = id
    if head ~= '' and not archive then
      local home = many + 2 * i - 6
      local first = fingerprint .. ' ' .. life .. ' ' .. born .. ' ' .. ARGV[9] .. '\n'
      local final = first .. head .. outcome .. tail .. today .. '}'
      local kept = keep_home(KEYS[home], KEYS[home + 1], id, life, final, ARGV[10])
      if kept == 'kept' and no_tombstone then
        over[#over + 1], over[KEYS[i]] = KEYS[i], true
      else
        tombstone(KEYS[i], life, ARGV[11])
      end
      if hash ~= '' and many <= 4 and #final <= 2048 + #first then -- an end that no chain shows may be taken back: it is read
        told[#told + 1] = '> ' .. life .. ' ' .. fingerprint .. ' ' .. string.sub(final, #first + 1)
      end
      event(id, status, hash, err)
      replies[#replies + 1] = 'retired'
    else
      for death, proof in pairs(deaths) do
        if redis.call('HEXISTS', KEYS[i], 'a:' .. death) == 1 then redis.call('HSET', KEYS[i], 'd:' .. death, proof) end
      end
      if record[4] then redis.call('HDEL', KEYS[i], 'd') end -- the operator's word has nothing left to act on
      keep_entry(KEYS[2], KEYS[i], record[3], archive)
      if not archive and before == 'held' then redis.call('HDEL', KEYS[i], 'p') end -- of one that was set aside
      finish(KEYS[i], id, status, outcome, hash, err, today)
      waiting[#waiting + 1] = id
      replies[#replies + 1] = 'settled'
    end
    if before == 'queued' then unsigned = unsigned + 1 end
    ended[#ended + 1] = id
    sids[#sids + 1] = record[3]
    if record[6] then shares[#shares + 1] = record[6] end
  end
end
for from = 1, #over, 500 do -- what Lua can unpack has a limit
  redis.call('DEL', unpack(over, from, math.min(from + 499, #over)))
end
local kept = {}
if ARGV[3] ~= '' and (not lane[3] or below(lane[3], ARGV[3])) then kept = {'landed', ARGV[3]} end
local place = tell(KEYS[1], KEYS[3], now, lane[4], lane[5])
if place then kept[#kept + 1], kept[#kept + 2] = 'told', place end
if #ended == 0 then
  redis.call('HINCRBY', KEYS[1], 'touch', 1)
else
  give_back(KEYS[1], shares)
  local in_set = leave(KEYS[2], KEYS[4], ended, sids, tonumber(lane[4]) < 2)
  if lane[6] then kept[#kept + 1], kept[#kept + 2] = 'signed', lane[6] - (#ended - unsigned - in_set) end
  await_home(KEYS[5], waiting)
  redis.call('PUBLISH', ARGV[4], table.concat(told, '\n'))
end
if #kept > 0 then redis.call('HSET', KEYS[1], unpack(kept)) end
return replies
