-- Shared by append and accept. On the wake channel they say "append"; on a lane of schema 2, for one small intent with
-- nothing unsigned before it, "entry" and what take would answer, a line each: stream id, id, life, fingerprint, kind,
-- more, payload. Keys 1 to 6 and arguments 1 and 2 are as append says; an intent's arguments begin at `at`.
local lane = redis.call('HMGET', KEYS[1], 'state', 'limit', 'keyless', 'cursor', 'floor', 'landed', 'schema', 'told',
  'most', 'last', 'upto')
local most_queued = tonumber(lane[9] or lane[2]) -- `limit` is 0 where release 0.1.0 must not append
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
local appended, replayed, many, newest = false, false, 0, 0
-- Whether this life ended: its home has the answer, and no tombstone is left where homes are at hand.
local function ended(home, life)
  local living, final = string.match(redis.call('GET', home) or '', '^%S+ (%S+) %S+ %S+\n?(.*)$')
  return living == life and final ~= ''
end
-- `new`: nothing is there, and nothing to be looked for.
local function append(key, at, new, home)
  local id, life, born = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local record = new and {} or redis.call('HMGET', key, 's', 'l', 'i', 't')
  if record[1] == 'retired' and record[2] == life or not record[1] and home and ended(home, life) then
    replayed = true
    return {'retired'}
  elseif record[1] and record[1] ~= 'retired' then
    if record[2] == life then
      replayed = true
      return {'exists', record[3], record[1], depth, record[4] or string.match(record[3], '^%d+')}
    end
    return {'other_life'}
  elseif born < now - ARGV[1] then
    return {'stale'}
  elseif born > now + ARGV[1] then
    return {'ahead'}
  elseif not lane[1] or lane[1] == 'closed' then
    return {'closed'}
  elseif depth >= most_queued then
    return {'full', depth}
  elseif taken(ARGV[at + 7], ARGV[at + 8]) then
    return {taken(ARGV[at + 7], ARGV[at + 8]), lane[4] or ''}
  elseif too_much(ARGV[at + 10]) then
    local used = too_much(ARGV[at + 10])
    return {'no_room', digits(used[1]), digits(used[2])}
  end
  local sid = redis.call('XADD', KEYS[2], '*', 'i', id, 'l', life, 'f', ARGV[at + 3], 'k', ARGV[at + 4],
    'm', ARGV[at + 5], 'p', ARGV[at + 6])
  if record[1] then redis.call('DEL', key) end -- a tombstone of an earlier life, with its expiry
  local at_ms = string.match(sid, '^%d+') -- the entry's own birth: whoever holds the entry knows it too
  if tonumber(lane[7]) < 2 then
    redis.call('HSET', key, 's', 'queued', 'l', life, 'f', ARGV[at + 3], 'k', ARGV[at + 4], 'm', ARGV[at + 5],
      'i', sid, 't', at_ms, 'u', at_ms)
  else
    redis.call('HSET', key, 's', 'queued', 'l', life, 'i', sid) -- its entry says the rest, until it leaves the queue
  end
  event(id, 'queued', '', '')
  if ARGV[at + 7] ~= '' then
    local entry = held(KEYS[4], ARGV[at + 7])
    keep(KEYS[4], KEYS[5], ARGV[at + 7], entry.nonce, 'sent', entry.at, digits(now + 600000),
      entry.sent .. ' ' .. ARGV[at + 9] .. '=' .. id)
  end
  local owner, size = string.match(ARGV[at + 10], '^(%S+) (%d+)')
  if owner then
    redis.call('HSET', key, 'q', owner .. ' ' .. size)
    local used = room(owner)
    used[1], used[2] = used[1] + 1, used[2] + size
  end
  depth, appended, many, newest = depth + 1, sid, many + 1, at
  return {'appended', sid, 'queued', depth, at_ms}
end
local function hint()
  local at = newest
  if many > 1 or lane[10] ~= lane[11] or tonumber(lane[7]) < 2 or lane[3] == '1' then return 'append' end
  if #ARGV[at + 5] + #ARGV[at + 6] > 4096 then return 'append' end
  return table.concat({'entry', appended, ARGV[at], ARGV[at + 1], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]}, '\n')
end
-- Once, after the last intent: what the lane itself keeps of them, and the hint to its owner.
local function close_batch()
  if appended then
    local changed = {'last', appended}
    local function keep_too(field, value) changed[#changed + 1], changed[#changed + 2] = field, value end
    for owner, used in pairs(rooms) do
      keep_too('n:' .. owner, digits(used[1]))
      keep_too('b:' .. owner, digits(used[2]))
    end
    local place = tell(KEYS[1], KEYS[3], now, lane[7], lane[8])
    if place then keep_too('told', place) end
    redis.call('HSET', KEYS[1], unpack(changed))
    redis.call('PUBLISH', ARGV[2], hint())
  elseif replayed then
    redis.call('HINCRBY', KEYS[1], 'touch', 1)
  end
end
