-- charge: hold what intents may cost at worst against their budgets; for each intent all of them, or none.
-- Keys   per budget of each intent: book (hash), spent (hash), agenda (zset), history (string)
-- Args   1 append limit ms  2 look after ms  3 "vouched" | ""  then per intent: id, life, born, units, how many budgets,
--        then per budget: name, limit, span ms, bucket ms
-- Reply  per intent {"charged", turn, ...} | {"ended"} | {"stale"} | {"ahead"} | {"moved"|"exhausted", which, usage}
-- Why    two processes that check a budget and then write to it would both find the last of it free
--@include _time
--@include _replication
--@include _budget
local now, vouched, found = clock(), ARGV[3], replication_id()
local replies, key, at = {}, 0, 4

local function charge(id, life, born, units, budgets)
  local fresh = false
  for _, b in ipairs(budgets) do
    if redis.call('ZSCORE', b.agenda, 'e ' .. life .. ' ' .. b.name) then return {'ended'} end
    b.entry = redis.call('HGET', b.book, 'o:' .. life)
    fresh = fresh or not b.entry
  end
  if fresh and born < now - ARGV[1] then return {'stale'} end
  if fresh and born > now + ARGV[1] then return {'ahead'} end
  for which, b in ipairs(budgets) do
    if not b.entry then
      if moved(b.history, vouched) then return {'moved', which, usage(b.book, b.spent, b.history, vouched, now)} end
      local kept = redis.call('HMGET', b.book, 'open', 'over')
      local sum, old = spent_within(b.spent, oldest(b.span, b.width, now))
      if number(kept[1]) + sum + units > number(kept[2] or b.limit) then
        return {'exhausted', which, usage(b.book, b.spent, b.history, vouched, now)}
      end
      b.old = old
    end
  end
  local reply = {'charged'}
  for _, b in ipairs(budgets) do
    local stored = redis.call('GET', b.history)
    redis.call('SET', b.history, moved(b.history, vouched) and stored or found) -- a write, so that a WAIT means something
    local charged, turn = string.match(b.entry or '', '^(%d+) (%d+)')
    turn = digits(number(turn) + 1)
    if not b.entry then
      redis.call('HINCRBY', b.book, 'open', digits(units))
      redis.call('HSET', b.book, 'per', digits(b.span) .. ' ' .. digits(b.width))
      for _, bucket in ipairs(b.old) do redis.call('HDEL', b.spent, bucket) end
    end
    redis.call('HSET', b.book, 'o:' .. life, (charged or digits(units)) .. ' ' .. turn .. ' ' .. digits(born) .. ' ' .. id)
    redis.call('ZADD', b.agenda, digits(now + ARGV[2]), 'o ' .. life .. ' ' .. b.name)
    redis.call('PERSIST', b.book)
    redis.call('PERSIST', b.spent)
    reply[#reply + 1] = tonumber(turn)
  end
  return reply
end

while at <= #ARGV do
  local id, life, born, units, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), ARGV[at + 4]
  local budgets = {}
  at = at + 5
  for _ = 1, tonumber(count) do
    budgets[#budgets + 1] = {
      book = KEYS[key + 1], spent = KEYS[key + 2], agenda = KEYS[key + 3], history = KEYS[key + 4],
      name = ARGV[at], limit = ARGV[at + 1], span = tonumber(ARGV[at + 2]), width = tonumber(ARGV[at + 3]),
    }
    at, key = at + 4, key + 4
  end
  replies[#replies + 1] = charge(id, life, born, units, budgets)
end
return replies
