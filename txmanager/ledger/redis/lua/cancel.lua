-- cancel: withdraw a queued intent, or one that was set aside, at once; ask the owner to kill an inflight one.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 open (set)  5 finals (set)  6 record (hash)
-- Args   1 id  2 life  3 outcome (json)  4 wake channel  5 final channel  6 "vouched" | ""
-- Reply  {"cancelled"} | {"asked"} | {"final", status} | {"gone"} | {"rolled_back", stored, found}
-- Why    it races the write-ahead: whichever script runs first decides, never both
--@include _time
--@include _replication
--@include _event
--@include _finish
--@include _room
local record = redis.call('HMGET', KEYS[6], 's', 'l', 'i', 'c', 'p', 'q')
if record[1] == 'retired' or record[2] ~= ARGV[2] then return {'gone'} end
local unsigned = record[1] == 'queued' or (record[1] == 'held' and record[5])
local stored, found = redis.call('HGET', KEYS[1], 'replid'), replication_id()
if unsigned and ARGV[6] == '' and stored ~= found then
  return {'rolled_back', stored, found} -- it may have been signed, and the ledger forgot it
end
redis.call('HDEL', KEYS[1], 'settling') -- needs no memory: a full server must still let work end
redis.call('HINCRBY', KEYS[1], 'touch', 1)
if unsigned then
  local archive = redis.call('HEXISTS', KEYS[1], 'archive') == 1
  keep_entry(KEYS[2], KEYS[6], record[3], archive)
  if not archive then redis.call('HDEL', KEYS[6], 'p') end
  local now = clock()
  finish(KEYS[6], ARGV[1], 'cancelled', ARGV[3], '', '', digits(now))
  tell_now(KEYS[1], KEYS[3], now)
  leave(KEYS[2], KEYS[4], {ARGV[1]}, {record[3]}, true)
  await_home(KEYS[5], {ARGV[1]})
  give_back(KEYS[1], {record[6] or nil})
  redis.call('PUBLISH', ARGV[5], ARGV[1])
  return {'cancelled'}
end
if record[1] ~= 'inflight' and record[1] ~= 'held' then return {'final', record[1]} end
if not record[4] then
  redis.call('HSET', KEYS[6], 'c', '1', 'u', digits(clock()))
  redis.call('HINCRBY', KEYS[1], 'asks', 1)
  redis.call('PUBLISH', ARGV[4], 'ask')
end
return {'asked'}
