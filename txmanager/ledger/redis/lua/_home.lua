-- A final record where retries ask first, for as long as it is kept; unless the key has another life by now.
local function keep_home(key, open, id, fingerprint, life, lane, born, record, keep_ms)
  local home = redis.call('GET', key)
  if home then
    local living, final = string.match(home, '^%S+ (%S+) %S+ %S+\n?(.*)$')
    if living ~= life then return 'other_life' end
    if final ~= '' then
      redis.call('SETRANGE', key, 0, string.sub(home, 1, 1))
      return 'kept'
    end
  end
  redis.call('ZREM', open, id)
  redis.call('SET', key, fingerprint .. ' ' .. life .. ' ' .. born .. ' ' .. lane .. '\n' .. record, 'PX', keep_ms)
  return 'kept'
end
-- What stays in the lane, for as long as an append of this life may still be under way.
local function tombstone(record, life, ms)
  redis.call('DEL', record)
  redis.call('HSET', record, 's', 'retired', 'l', life)
  redis.call('PEXPIRE', record, ms)
end
