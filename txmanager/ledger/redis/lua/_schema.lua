-- From schema 2 on an append needs what release 0.1.0 does not look at: its own `append` reads `limit`, and finds no room.
local function limit(lane, schema, most)
  if tonumber(schema) < 2 then
    redis.call('HSET', lane, 'limit', most)
  else
    redis.call('HSET', lane, 'limit', '0', 'most', most)
  end
end
