-- Every exit from the queue: state, acknowledgement, deletion and event in one step.
local function finish(queue, events, open, finals, record, id, sid, status, outcome, hash, err, now)
  redis.call('XACK', queue, 'lane', sid)
  redis.call('XDEL', queue, sid)
  redis.call('SREM', open, id)
  redis.call('SADD', finals, id)
  redis.call('HDEL', record, 'd')
  redis.call('HSET', record, 's', status, 'o', outcome, 'u', digits(now))
  event(events, id, status, now, hash, err)
end
