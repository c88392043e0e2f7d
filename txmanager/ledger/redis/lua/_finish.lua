-- Every exit from the queue: state, acknowledgement, deletion and event in one step.
local function finish(record, id, status, outcome, hash, err, at)
  redis.call('HSET', record, 's', status, 'o', outcome, 'u', at)
  event(id, status, hash, err)
end
-- What only the entry says moves to the record before the entry leaves the queue; with `payload`, where an archive waits
-- for it, that too. A lane of schema 1 writes all of the rest into the record at once.
local function keep_entry(queue, record, sid, payload)
  local slim = redis.call('HEXISTS', record, 'k') == 0
  local entry = (slim or payload) and redis.call('XRANGE', queue, sid, sid)[1]
  if not entry then return end
  local said = entry[2] -- i, l, f, k, m, p
  if slim then
    redis.call('HSET', record, 'f', said[6], 'k', said[8], 't', string.match(sid, '^%d+'))
    redis.call('HSETNX', record, 'm', said[10])
  end
  if payload then redis.call('HSET', record, 'p', said[12]) end
end
-- `grouped`: a worker of release 0.1.0 may have read them through the queue's group. Answers how many were in the set.
local function leave(queue, open, ids, sids, grouped)
  local found = 0
  for from = 1, #ids, 500 do -- what Lua can unpack has a limit
    local to = math.min(from + 499, #ids)
    if grouped then redis.call('XACK', queue, 'lane', unpack(sids, from, to)) end
    redis.call('XDEL', queue, unpack(sids, from, to))
    found = found + redis.call('SREM', open, unpack(ids, from, to))
  end
  return found
end
-- Final, and not retired yet.
local function await_home(finals, ids)
  for from = 1, #ids, 500 do
    redis.call('SADD', finals, unpack(ids, from, math.min(from + 499, #ids)))
  end
end
