-- Passes: fields of a hash whose text begins with the time of their end. Needs _time.
-- A write that is always made, and first one that needs no memory: people must be able to log in and out beside a full server.
local function touch(key, now)
  redis.call('HDEL', key, '')
  redis.call('HSET', key, 'at', digits(now))
end
local function keep_for(key, ms)
  if redis.call('PTTL', key) < tonumber(ms) then redis.call('PEXPIRE', key, ms) end
end
local function add_pass(key, field, text, lasts, most)
  local flat, left = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    local ends = tonumber(string.match(flat[i + 1], '^%d+'))
    left[#left + 1] = {ends, flat[i]} -- `at`, too: it is in the past and the first to go
  end
  table.sort(left, function(a, b) return a[1] < b[1] end)
  for i = 1, #left - most + 1 do redis.call('HDEL', key, left[i][2]) end
  redis.call('HSET', key, field, text)
  keep_for(key, lasts)
end
