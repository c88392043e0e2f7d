-- mempool_observe: counts that were read from the chain.
-- Keys   as in _mempool
-- Args   1 limits, then each: address count block height pending orphaned | "-"
-- Reply  {{word, base, landed hashes}, ...}
-- Why    an endpoint that lags must not lower a count: what is on chain would be sent again
--@include _time
--@include _decimal
--@include _mempool
--@include _mempool_observe
redis.call('ZREM', KEYS[7], '') -- needs no memory: a full server must learn what landed
local answers = {}
for i = 2, #ARGV, 6 do
  local s = sender(ARGV[i])
  if not s then
    answers[#answers + 1] = {'unknown', {}, {}}
  else
    local word, landed = observe(s, {
      count = ARGV[i + 1], block = ARGV[i + 2], height = ARGV[i + 3], pending = ARGV[i + 4], orphaned = ARGV[i + 5]
    })
    answers[#answers + 1] = {word, base_of(s), landed}
  end
end
flush()
return answers
