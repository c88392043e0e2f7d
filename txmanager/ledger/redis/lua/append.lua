-- append: accept intents into the lane's queue, each once.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 reservations (hash)  5 deadlines (zset)
--        6.. record (hash) of each intent
-- Args   1 append limit ms  2 wake channel  then per intent: id, life, born, fingerprint, kind, more (json), payload,
--        and on a keyless lane reservation token, nonce, hash (else "" each)
-- Reply  per intent {"appended"|"exists", stream id, status, depth, at} | {"retired"} | {"other_life"} | {"stale"} |
--        {"ahead"} | {"closed"} | {"full", depth} | {"unreserved", cursor | ""} | {"used", cursor}
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
local replies, appended, replayed = {}, false, false
for i = 6, #KEYS do
  local at = 3 + (i - 6) * 10
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
    depth = depth + 1
    reply, appended = {'appended', sid, 'queued', depth, at_ms}, sid
  end
  replies[#replies + 1] = reply
end
if appended then
  redis.call('HSET', KEYS[1], 'last', appended)
  redis.call('PUBLISH', ARGV[2], 'append')
elseif replayed then
  redis.call('HINCRBY', KEYS[1], 'touch', 1)
end
return replies
