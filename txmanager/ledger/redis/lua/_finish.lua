-- Every exit from the queue: state, acknowledgement, deletion and event in one step.
local function finish(events, record, id, status, outcome, hash, err, at)
  redis.call('HSET', record, 's', status, 'o', outcome, 'u', at)
  event(events, id, status, at, hash, err)
end
-- An archive is waited for: the payload leaves the queue with its entry, and stays on the record.
local function keep_payload(queue, record, sid)
  local entry = redis.call('XRANGE', queue, sid, sid)[1]
  if entry then redis.call('HSET', record, 'p', entry[2][12]) end
end
local function leave(queue, open, ids, sids)
  for from = 1, #ids, 500 do -- what Lua can unpack has a limit
    local to = math.min(from + 499, #ids)
    redis.call('XACK', queue, 'lane', unpack(sids, from, to))
    redis.call('XDEL', queue, unpack(sids, from, to))
    redis.call('SREM', open, unpack(ids, from, to))
  end
end
-- Final, and not retired yet.
local function await_home(finals, ids)
  for from = 1, #ids, 500 do
    redis.call('SADD', finals, unpack(ids, from, math.min(from + 499, #ids)))
  end
end
