-- mempool_reopen: sent transactions that the chain does not know become unsure, to be looked up and sent again.
-- Keys   as in _mempool
-- Args   1 limits, then hashes
-- Reply  hashes that were reopened
-- Why    only the newest bytes of a nonce go again: older ones were replaced
--@include _time
--@include _mempool
redis.call('ZREM', KEYS[7], '') -- needs no memory
local opened = {}
for i = 2, #ARGV do
  local t = tx(ARGV[i])
  if t and t.state == 'sent' then
    local s = sender(t.sender)
    if newest(s, t.nonce) == t then
      move(t, 'unsure')
      arrange(s)
      opened[#opened + 1] = t.hash
    end
  end
end
flush()
return opened
