-- mempool_done: what came of a send; the best head that waits is granted to the same caller.
-- Keys   as in _mempool
-- Args   1 limits  2 owner  3 call  4 sender  5 fence  6 verdict  7 message  8 code  9 ms to wait  10 "1": grant more
-- Reply  {word, {grant, bytes} | {}, ms it was held, how many of the sender wait}
-- Why    a holder that paused past its time must not overwrite what its successor did
--@include _time
--@include _replication
--@include _mempool
--@include _mempool_server
--@include _mempool_grant
local owner, call, fence, verdict, wait = ARGV[2], ARGV[3], ARGV[5], ARGV[6], tonumber(ARGV[9])
local s = sender(ARGV[4])
if not s then return {'stale', {}, '0', '0'} end
local h = hold(s.address)
if not h or h.fence ~= fence or h.owner ~= owner then
  if s.done ~= fence then return {'stale', {}, '0', digits(s.waiting)} end
  for _, address in ipairs(redis.call('HKEYS', KEYS[10])) do
    local next = hold(address)
    if next.after == fence and next.owner == owner then
      return {'done', {tell(address, next), redis.call('HGET', KEYS[6], next.hash)}, '0', digits(s.waiting)}
    end
  end
  return {'done', {}, '0', digits(s.waiting)}
end
local t = tx(h.hash)
release(s.address)
mind_the_server()
s.done = fence
-- Whether it may wait again: what was accepted since has taken its place otherwise.
local fits = C.waiting_bytes + t.size <= L.kept_bytes and C.waiting < L.capacity
if verdict == 'sent' then
  move(t, 'sent')
elseif verdict == 'refuse' then
  finish(t, 'refused', ARGV[7], ARGV[8])
elseif verdict == 'retry' and h.again == '0' and fits then
  move(t, 'waiting')
else
  move(t, 'unsure')
end
if (verdict == 'retry' or verdict == 'maybe') and wait > 0 then
  s.paused = now + wait
  wake_at(s, s.paused)
end
walk(s)
arrange(s)
local more = {}
if ARGV[10] == '1' then
  local one = grant_best(owner, call, fence)
  if one then more = {one, redis.call('HGET', KEYS[6], one[1])} end
end
flush()
return {'done', more, digits(now - h.at), digits(s.waiting)}
