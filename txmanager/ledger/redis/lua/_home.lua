-- A final record where retries ask first, for as long as it is kept; unless the key has another life by now. `whole` is
-- what it holds then, put together by the caller at once: each part of a text that Lua joins is copied and hashed again.
local function keep_home(key, open, id, life, whole, keep_ms)
  local home, ends = redis.call('GET', key), nil
  if home then
    local from = string.find(home, ' ', 1, true)
    if string.sub(home, from + 1, from + #life + 1) ~= life .. ' ' then return 'other_life' end
    ends = string.find(home, '\n', 1, true)
    if ends and ends < #home then -- final
      redis.call('SETRANGE', key, 0, string.sub(home, 1, 1))
      return 'kept'
    end
  end
  if not ends then redis.call('ZREM', open, id) end -- what was accepted in one step is not among the open ones
  redis.call('SET', key, whole, 'PX', keep_ms)
  return 'kept'
end
-- What stays in the lane, for as long as an append of this life may still be under way.
local function tombstone(record, life, ms)
  redis.call('DEL', record)
  redis.call('HSET', record, 's', 'retired', 'l', life)
  redis.call('PEXPIRE', record, ms)
end
