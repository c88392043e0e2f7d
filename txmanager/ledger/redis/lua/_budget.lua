-- A budget is a book (hash) with `open` (units of open charges), `over` (an operator's limit), `per` ("span bucket" in ms)
-- and `o:<life>` ("units turn born id") for each open charge; and its costs (hash), units by bucket.
-- The agenda (zset) of a place says when to look at a charge, and until when a life that ended is remembered.
local function number(text) return tonumber(text or 0) end
local function oldest(span, width, now)
  return span > 0 and math.floor((now - span) / width) or 0
end
local function spent_within(spent, first)
  local sum, old, flat = 0, {}, redis.call('HGETALL', spent)
  for i = 1, #flat, 2 do
    if tonumber(flat[i]) >= first then sum = sum + flat[i + 1] else old[#old + 1] = flat[i] end
  end
  return sum, old
end
-- What the records cannot vouch for: this place was last written in another history of the server.
local function moved(history, vouched)
  local stored = redis.call('GET', history)
  return stored and stored ~= replication_id() and vouched == ''
end
local function usage(book, spent, history, vouched, now)
  local kept = redis.call('HMGET', book, 'open', 'over')
  return {kept[1] or '0', kept[2] or '', moved(history, vouched) and 1 or 0, digits(now), redis.call('HGETALL', spent)}
end
-- A budget that nothing is charged to and that has no costs left may be forgotten.
local function rest(book, spent)
  local kept = redis.call('HMGET', book, 'open', 'over', 'per')
  local span, width = string.match(kept[3] or '', '^(%d+) (%d+)$')
  if number(span) > 0 and not kept[2] and number(kept[1]) <= 0 then
    redis.call('PEXPIRE', book, digits(span + width))
    redis.call('PEXPIRE', spent, digits(span + width))
  else
    redis.call('PERSIST', book)
    redis.call('PERSIST', spent)
  end
end
local function take_out(book, spent, agenda, name, life, units)
  redis.call('HDEL', book, 'o:' .. life)
  redis.call('HINCRBY', book, 'open', '-' .. units)
  redis.call('ZREM', agenda, 'o ' .. life .. ' ' .. name)
  rest(book, spent)
end
