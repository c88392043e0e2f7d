-- retire_home: keep final records where retries ask first.
-- Keys   per record: home (string), open (zset); records of one call share a slot
-- Args   1 retention ms  then per record: id, fingerprint, life, lane, born, record (json)
-- Reply  per record "kept" | "other_life"
-- Why    a key used again after its retention has another life: its past must not overwrite it
local function retire(key, open, id, fingerprint, life, lane, born, record)
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
  redis.call('SET', key, fingerprint .. ' ' .. life .. ' ' .. born .. ' ' .. lane .. '\n' .. record, 'PX', ARGV[1])
  return 'kept'
end
redis.call('ZREM', KEYS[2], '') -- a write that needs no memory, so that a full server lets the script pass
local replies = {}
for i = 1, #KEYS / 2 do
  local at = 6 * i + 1
  replies[i] = retire(KEYS[2 * i - 1], KEYS[2 * i], ARGV[at - 5], ARGV[at - 4], ARGV[at - 3], ARGV[at - 2],
    ARGV[at - 1], ARGV[at])
end
return replies
