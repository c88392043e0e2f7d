-- One event per transition, in the same step that makes it. Only this stream is ever trimmed.
-- A step collects its events (`event`) and writes them at its end (`tell`): in a lane of schema 2 as one entry, whose id
-- is `ms-n`, n being how many events the lane has had with the last of these. Its fields are `t`, the time, and `b`, a
-- line `id TAB status TAB hash TAB error` for each. An older lane gets one entry for each event.
local transitions = {}
local function event(id, status, hash, err)
  if err ~= '' then err = string.gsub(err, '[\t\n]', ' ') end
  transitions[#transitions + 1] = id .. '\t' .. status .. '\t' .. hash .. '\t' .. err
end
-- `place` is what the lane keeps of its events in `told`: "ms n". Answers what it has to keep now, or nothing.
local function tell(lane, events, now, schema, place)
  if #transitions == 0 then return nil end
  if tonumber(schema) < 2 then
    for _, line in ipairs(transitions) do
      local id, status, hash, err = string.match(line, '^([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$')
      local fields = {'i', id, 's', status, 't', digits(now)}
      if hash ~= '' then fields[7], fields[8] = 'h', hash end
      if err ~= '' then fields[#fields + 1], fields[#fields + 2] = 'e', err end
      redis.call('XADD', events, 'MAXLEN', '~', '10000', '*', unpack(fields))
    end
    return nil
  end
  local ms, n = string.match(place or '0 0', '^(%d+) (%d+)$')
  local before = tonumber(n)
  local count = before + #transitions
  local at = math.max(now, tonumber(ms)) -- a clock that was set back must not make an id smaller than the last
  local id = digits(at) .. '-' .. digits(count)
  if redis.pcall('XADD', events, id, 't', digits(now), 'b', table.concat(transitions, '\n')).err then
    -- There is a later event: an API of 0.1.0 wrote it, or the clock was set back before the lane was raised. Each of ours
    -- gets an entry, because the places before one of many might be taken.
    for _, line in ipairs(transitions) do id = redis.call('XADD', events, '*', 't', digits(now), 'b', line) end
    ms, n = string.match(id, '^(%d+)-(%d+)$')
    at, count = tonumber(ms), math.max(count, tonumber(n))
  end
  -- Every 5,000 events those go that are older than the mark before the last: 10,000 to 15,000 stay.
  if math.floor(count / 5000) > math.floor(before / 5000) then
    local mark = redis.call('HMGET', lane, 'mark', 'marked')
    if mark[1] then redis.call('XTRIM', events, 'MINID', mark[1]) end
    redis.call('HSET', lane, 'mark', mark[2] or '0-0', 'marked', id)
  end
  return digits(at) .. ' ' .. digits(count)
end
-- For a step that has not read the lane.
local function tell_now(lane, events, now)
  local kept = redis.call('HMGET', lane, 'schema', 'told')
  local place = tell(lane, events, now, kept[1], kept[2])
  if place then redis.call('HSET', lane, 'told', place) end
end
