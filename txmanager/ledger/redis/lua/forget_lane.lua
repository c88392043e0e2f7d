-- forget_lane: delete a keyless lane that nothing depends on any more.
-- Keys   1 lane (hash)  2 reservations (hash)  3 deadlines (zset)  4 reuse (zset)  5 line (zset)  6 queue (stream)
--        7 open (set)  8 finals (set)  9 fills (hash)  10 backlog (zset)  11 events (stream)
-- Reply  {"ok"} | {"unknown"} | {"kept", keyless "1" | "", state, "records" | "sent" | "reserved" | ""}
-- Why    whoever is given a number of a new counter must not meet bytes of the old one
--@include _time
--@include _decimal
--@include _held
local lane = redis.call('HMGET', KEYS[1], 'spec', 'keyless', 'landed', 'state')
if not lane[1] then return {'unknown'} end
local now, why = clock(), ''
for _, token in ipairs(redis.call('HKEYS', KEYS[2])) do
  local entry = held(KEYS[2], token)
  if entry.state == 'sent' then
    if not spent(entry.nonce, nil, lane[3]) then why = 'sent' end
  elseif entry.state ~= 'over' and tonumber(entry.till) > now and why == '' then
    why = 'reserved'
  end
end
if redis.call('XLEN', KEYS[6]) + redis.call('SCARD', KEYS[7]) + redis.call('SCARD', KEYS[8])
  + redis.call('HLEN', KEYS[9]) + redis.call('ZCARD', KEYS[10]) > 0 then why = 'records' end
if why ~= '' or lane[2] ~= '1' or lane[4] == 'closed' then return {'kept', lane[2] or '', lane[4], why} end
redis.call('DEL', unpack(KEYS))
return {'ok'}
