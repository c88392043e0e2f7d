-- take: the oldest queued intents, in order; a repeated take answers the same.
-- Keys   1 lane (hash)  2 queue (stream)
-- Args   1 epoch  2 token  3 count
-- Reply  {"ok", entry, ...} with entry = {stream id, fields} | {"idle", state} | {"fenced", owner, epoch}
-- Why    the group read is fenced: a zombie that reads after a take-over would park entries where nobody looks
--@include _fence
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local lane = redis.call('HMGET', KEYS[1], 'state', 'upto')
if lane[1] ~= 'active' and lane[1] ~= 'draining' then return {'idle', lane[1]} end
local reply, want = {'ok'}, tonumber(ARGV[3])
for _, from in ipairs({lane[2], '>'}) do
  if want > 0 then
    local read = redis.call('XREADGROUP', 'GROUP', 'lane', 'owner', 'COUNT', want, 'STREAMS', KEYS[2], from)
    for _, entry in ipairs(read and read[1][2] or {}) do
      if entry[2] then
        reply[#reply + 1] = entry
        want = want - 1
      end
    end
  end
end
return reply
