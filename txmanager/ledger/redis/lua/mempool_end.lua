-- mempool_end: transactions that are over.
-- Keys   as in _mempool
-- Args   1 limits  2 states that stay, each between blanks, then each: hash reason message code
-- Reply  hashes that ended now
-- Why    what somebody is sending at this moment has no end yet
--@include _time
--@include _mempool
redis.call('ZREM', KEYS[7], '') -- needs no memory: this is what makes room
local ended = {}
for i = 3, #ARGV, 4 do
  local t = tx(ARGV[i])
  if t and not t.gone and not string.find(ARGV[2], ' ' .. t.state .. ' ', 1, true) then
    finish(t, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    ended[#ended + 1] = t.hash
  end
end
flush()
return ended
