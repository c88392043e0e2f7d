-- Every exit from the queue: state, acknowledgement, deletion and event in one step.
local function finish(events, record, id, status, outcome, hash, err, at)
  redis.call('HSET', record, 's', status, 'o', outcome, 'u', at)
  event(events, id, status, at, hash, err)
end
local function leave(queue, open, finals, ids, sids)
  for from = 1, #ids, 500 do -- what Lua can unpack has a limit
    local to = math.min(from + 499, #ids)
    redis.call('XACK', queue, 'lane', unpack(sids, from, to))
    redis.call('XDEL', queue, unpack(sids, from, to))
    redis.call('SREM', open, unpack(ids, from, to))
    redis.call('SADD', finals, unpack(ids, from, to))
  end
end
