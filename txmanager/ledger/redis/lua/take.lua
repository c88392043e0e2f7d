-- take: the oldest queued intents, in order; a repeated take answers the same.
-- Keys   1 lane (hash)  2 queue (stream)
-- Args   1 epoch  2 token  3 count
-- Reply  {"ok", entry, ...} with entry = {stream id, fields} | {"idle", state} | {"fenced", owner, epoch}
-- Why    the group read is fenced: a zombie that reads after a take-over would park entries where nobody looks
--@include _decimal
--@include _fence
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local lane = redis.call('HMGET', KEYS[1], 'state', 'upto')
if lane[1] ~= 'active' and lane[1] ~= 'draining' then return {'idle', lane[1]} end
local upto_ms, upto_n = string.match(lane[2], '^(%d+)-(%d+)$')
local function signed(id)
  local ms, n = string.match(id, '^(%d+)-(%d+)$')
  if ms == upto_ms then return not below(upto_n, n) end
  return below(ms, upto_ms)
end
-- First what was handed out and not signed, page by page to its end, then what never was.
local reply, want, from = {'ok'}, tonumber(ARGV[3]), lane[2]
while want > 0 do
  local read = redis.call('XREADGROUP', 'GROUP', 'lane', 'owner', 'COUNT', want, 'STREAMS', KEYS[2], from)
  local entries, asked = read and read[1][2] or {}, want
  for _, entry in ipairs(entries) do
    if entry[2] and not signed(entry[1]) then
      reply[#reply + 1] = entry
      want = want - 1
    end
  end
  if #entries < asked then
    if from == '>' then break end
    from = '>'
  elseif from ~= '>' then
    from = entries[#entries][1]
  end
end
return reply
