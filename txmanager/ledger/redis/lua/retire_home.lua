-- retire_home: keep final records where retries ask first.
-- Keys   per record: home (string), open (zset); records of one call share a slot
-- Args   1 retention ms  then per record: id, fingerprint, life, lane, born, record (json)
-- Reply  per record "kept" | "other_life"
-- Why    a key used again after its retention has another life: its past must not overwrite it
--@include _home
redis.call('ZREM', KEYS[2], '') -- a write that needs no memory, so that a full server lets the script pass
local replies = {}
for i = 1, #KEYS / 2 do
  local at = 6 * i + 1
  local id, life, lane, born = ARGV[at - 5], ARGV[at - 3], ARGV[at - 2], ARGV[at - 1]
  local home = ARGV[at - 4] .. ' ' .. life .. ' ' .. born .. ' ' .. lane .. '\n' .. ARGV[at]
  replies[i] = keep_home(KEYS[2 * i - 1], KEYS[2 * i], id, life, home, ARGV[1])
end
return replies
