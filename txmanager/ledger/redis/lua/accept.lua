-- accept: claim new keys and append their intents in one step, where one server holds homes and lane.
-- Keys   1 lane (hash)  2 queue (stream)  3 events (stream)  4 reservations (hash)  5 deadlines (zset)  6 open (set)
--        then per intent: record (hash), home (string)
-- Args   1 append limit ms  2 wake channel  3 lane  then per intent as append has them; `born` is when the caller asked,
--        by this server's clock
-- Reply  per intent {"known"} | what append answers; nothing was written unless it is "appended"
-- Why    a key that has a home goes the long way, claim and then append; and a request that arrives after its key was
--        used, answered and forgotten is stale: it must not begin a second life. The home ends in a newline: it never
--        was without a record, so that no sweeper has to look for it among the open ones
--@include _time
--@include _event
--@include _decimal
--@include _held
--@include _append
local replies = {}
for i = 7, #KEYS, 2 do
  local at = 4 + (i - 7) / 2 * 11
  local reply
  local new = redis.call('EXISTS', KEYS[i], KEYS[i + 1]) == 0
  if not new and redis.call('EXISTS', KEYS[i + 1]) == 1 then
    reply = {'known'}
  else
    reply = append(KEYS[i], at, new)
    if reply[1] == 'appended' then
      redis.call('SET', KEYS[i + 1], ARGV[at + 3] .. ' ' .. ARGV[at + 1] .. ' ' .. today .. ' ' .. ARGV[3] .. '\n')
    end
  end
  replies[#replies + 1] = reply
end
close_batch()
return replies
