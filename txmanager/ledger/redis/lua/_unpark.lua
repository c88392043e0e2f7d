-- A lane that was parked goes on where it stood, with a new queue.
local function unpark(lane, queue)
  if redis.call('HEXISTS', lane, 'state') == 1 then return end
  redis.call('HDEL', lane, 'parked')
  redis.call('HSET', lane, 'state', 'active')
  redis.call('XGROUP', 'CREATE', queue, 'lane', '0', 'MKSTREAM')
end
