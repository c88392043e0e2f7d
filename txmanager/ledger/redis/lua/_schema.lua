-- From schema 2 on an append needs what release 0.1.0 does not look at: its own `append` reads `limit`, and finds no room.
local function limit(lane, schema, most)
  if tonumber(schema) < 2 then
    redis.call('HSET', lane, 'limit', most)
  else
    redis.call('HSET', lane, 'limit', '0', 'most', most)
  end
end
-- Only older releases read the queue through its group.
local function group(queue, schema)
  if tonumber(schema) < 2 then redis.call('XGROUP', 'CREATE', queue, 'lane', '0', 'MKSTREAM') end
end
-- A worker of an older release that still owns the lane takes nothing more: its `settle` would not keep what only an
-- entry says.
local function ungroup(queue)
  if redis.call('EXISTS', queue) == 1 then redis.call('XGROUP', 'DESTROY', queue, 'lane') end
end
