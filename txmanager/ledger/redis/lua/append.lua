-- append: accept intents into the lane's queue, each once.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 reservations (hash)  5 deadlines (zset)
--        6 open (set)  7.. record (hash) of each intent
-- Args   1 append limit ms  2 wake channel  then per intent: id, life, born, fingerprint, kind, more (json), payload,
--        on a keyless lane reservation token, nonce, hash (else "" each), and who pays for the room:
--        "owner bytes most|- most bytes|-" | ""
-- Reply  per intent {"appended"|"exists", stream id, status, depth, at} | {"retired"} | {"other_life"} | {"stale"} |
--        {"ahead"} | {"closed"} | {"full", depth} | {"unreserved", cursor | ""} | {"used", cursor} |
--        {"no_room", owner's intents, owner's bytes}
-- Why    a producer that paused after its claim must not bring back an intent that already ended; and bytes
--        that may be sent own their number from the step that accepts them
--@include _time
--@include _event
--@include _decimal
--@include _held
local lane = redis.call('HMGET', KEYS[1], 'state', 'limit', 'keyless', 'cursor', 'floor', 'landed')
-- Why a number may not be used with this token, if so.
local function taken(token, nonce)
  if lane[3] ~= '1' then return token ~= '' and 'unreserved' end
  local entry = held(KEYS[4], token)
  if not entry or entry.nonce ~= nonce then return 'unreserved' end
  if entry.state ~= 'reserved' and entry.state ~= 'sent' then return 'unreserved' end
  -- A count that was seen may be taken back by a reorg: what was sent may be replaced until it is final.
  return spent(nonce, entry.state == 'reserved' and lane[5], lane[6]) and 'used'
end
local now = clock()
local today = digits(now)
local depth = redis.call('XLEN', KEYS[2])
-- What the owners of these intents use of this lane, read once each; a lane without a live intent owes nothing.
local rooms, empty = {}, depth == 0 and redis.call('SCARD', KEYS[6]) == 0
local function room(owner)
  if not rooms[owner] then
    local used = empty and {} or redis.call('HMGET', KEYS[1], 'n:' .. owner, 'b:' .. owner)
    rooms[owner] = {tonumber(used[1] or 0), tonumber(used[2] or 0)}
  end
  return rooms[owner]
end
local function too_much(charge)
  local owner, size, most, most_bytes = string.match(charge, '^(%S+) (%d+) (%S+) (%S+)$')
  if not owner then return nil end
  local used = room(owner)
  if most ~= '-' and used[1] >= tonumber(most) then return used end
  if most_bytes ~= '-' and used[2] + size > tonumber(most_bytes) then return used end
end
local replies, appended, replayed = {}, false, false
for i = 7, #KEYS do
  local at = 3 + (i - 7) * 11
  local id, life, born = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local record = redis.call('HMGET', KEYS[i], 's', 'l', 'i', 't')
  local reply
  if record[1] == 'retired' and record[2] == life then
    reply, replayed = {'retired'}, true
  elseif record[1] and record[1] ~= 'retired' then
    if record[2] == life then
      reply, replayed = {'exists', record[3], record[1], depth, record[4]}, true
    else
      reply = {'other_life'}
    end
  elseif born < now - ARGV[1] then
    reply = {'stale'}
  elseif born > now + ARGV[1] then
    reply = {'ahead'}
  elseif not lane[1] or lane[1] == 'closed' then
    reply = {'closed'}
  elseif depth >= tonumber(lane[2]) then
    reply = {'full', depth}
  elseif taken(ARGV[at + 7], ARGV[at + 8]) then
    reply = {taken(ARGV[at + 7], ARGV[at + 8]), lane[4] or ''}
  elseif too_much(ARGV[at + 10]) then
    local used = too_much(ARGV[at + 10])
    reply = {'no_room', digits(used[1]), digits(used[2])}
  else
    local sid = redis.call('XADD', KEYS[2], '*', 'i', id, 'l', life, 'f', ARGV[at + 3], 'k', ARGV[at + 4],
      'm', ARGV[at + 5], 'p', ARGV[at + 6])
    if record[1] then redis.call('DEL', KEYS[i]) end -- a tombstone of an earlier life, with its expiry
    local at_ms = string.match(sid, '^%d+') -- the entry's own birth: whoever holds the entry knows it too
    redis.call('HSET', KEYS[i], 's', 'queued', 'l', life, 'f', ARGV[at + 3], 'k', ARGV[at + 4], 'm', ARGV[at + 5],
      'i', sid, 't', at_ms, 'u', at_ms)
    event(KEYS[3], id, 'queued', today, '', '')
    if ARGV[at + 7] ~= '' then
      local entry = held(KEYS[4], ARGV[at + 7])
      keep(KEYS[4], KEYS[5], ARGV[at + 7], entry.nonce, 'sent', entry.at, digits(now + 600000),
        entry.sent .. ' ' .. ARGV[at + 9] .. '=' .. id)
    end
    local owner, size = string.match(ARGV[at + 10], '^(%S+) (%d+)')
    if owner then
      redis.call('HSET', KEYS[i], 'q', owner .. ' ' .. size)
      local used = room(owner)
      used[1], used[2] = used[1] + 1, used[2] + size
    end
    depth = depth + 1
    reply, appended = {'appended', sid, 'queued', depth, at_ms}, sid
  end
  replies[#replies + 1] = reply
end
if appended then
  local changed = {'last', appended}
  for owner, used in pairs(rooms) do
    for _, told in ipairs({'n:' .. owner, digits(used[1]), 'b:' .. owner, digits(used[2])}) do
      changed[#changed + 1] = told
    end
  end
  redis.call('HSET', KEYS[1], unpack(changed))
  redis.call('PUBLISH', ARGV[2], 'append')
elseif replayed then
  redis.call('HINCRBY', KEYS[1], 'touch', 1)
end
return replies
