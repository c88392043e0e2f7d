-- records: whole records, with their payload while they are in the queue.
-- Keys   1 queue (stream)  2.. record (hash)
-- Reply  per record {fields, stream fields | nil}
local replies = {}
for i = 2, #KEYS do
  local fields = redis.call('HGETALL', KEYS[i])
  local sid = redis.call('HGET', KEYS[i], 'i')
  local entry = sid and redis.call('XRANGE', KEYS[1], sid, sid)[1]
  replies[#replies + 1] = {fields, entry and entry[2] or {}}
end
return replies
