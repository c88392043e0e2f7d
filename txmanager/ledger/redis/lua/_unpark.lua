-- A lane that was parked goes on where it stood, with a new queue.
local function unpark(lane, queue, schema)
  if redis.call('HEXISTS', lane, 'state') == 1 then return end
  redis.call('HDEL', lane, 'parked')
  redis.call('HSET', lane, 'state', 'active')
  group(queue, schema)
end
