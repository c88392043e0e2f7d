-- Which intents have attempts and no end yet: in a lane of schema 2 the first `signed` entries of the queue, up to `upto`.
-- The set has those that were set aside, and those that were signed in schema 1.
local function unfinished(lane, queue, open)
  local ids, known = redis.call('SMEMBERS', open), {}
  for _, id in ipairs(ids) do known[id] = true end
  local stands = redis.call('HMGET', lane, 'upto', 'signed')
  local from, page = '-', tonumber(stands[2] or 0) > 0 and {true} or {}
  while #page > 0 do
    page = redis.call('XRANGE', queue, from, stands[1], 'COUNT', '100')
    for _, entry in ipairs(page) do
      local id = entry[2][2]
      if not known[id] then ids[#ids + 1] = id end
      from = '(' .. entry[1]
    end
  end
  return ids
end
