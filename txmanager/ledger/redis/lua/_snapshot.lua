-- Everything an operator or a new owner wants to know of a lane, read in one step.
local function snapshot(lane, queue, open, finals)
  local first = redis.call('XRANGE', queue, '-', '+', 'COUNT', '1')
  return {
    redis.call('HGETALL', lane), redis.call('XLEN', queue), redis.call('SCARD', open), redis.call('SCARD', finals),
    first[1] and first[1][1] or '', replication_id(), digits(clock())
  }
end
