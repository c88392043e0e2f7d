-- correct: replace charges by what their intents cost; each once, by its life.
-- Keys   per correction: book (hash), spent (hash), agenda (zset), history (string)
-- Args   1 how long an ended life is remembered (ms)  then per correction: name, life, units, end ms, span ms, bucket ms
-- Reply  per correction 1 | 0 (nothing stood there)
-- Why    a correction that is made again must not give back, nor book, twice
--@include _time
--@include _replication
--@include _budget
local MOST = 9007199254740991
redis.call('ZREM', KEYS[3], '') -- a write that needs no memory, so that a full server lets the script pass
local now, replies = clock(), {}
for i = 1, #KEYS / 4 do
  local at = 6 * i - 4
  local name, life, units, ended = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local span, width = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local book, spent, agenda, history = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i]
  local entry = redis.call('HGET', book, 'o:' .. life)
  if entry then
    local bucket = math.floor(ended / width)
    if units > 0 and bucket >= oldest(span, width, now) then
      local sum = math.min(MOST, number(redis.call('HGET', spent, digits(bucket))) + units)
      redis.call('HSET', spent, digits(bucket), digits(sum))
    end
    redis.call('ZADD', agenda, digits(now + ARGV[1]), 'e ' .. life .. ' ' .. name)
    take_out(book, spent, agenda, name, life, string.match(entry, '^%d+'))
  else
    redis.call('SETRANGE', history, 0, string.sub(redis.call('GET', history) or '', 1, 1)) -- a write, for a WAIT behind it
  end
  replies[i] = entry and 1 or 0
end
return replies
