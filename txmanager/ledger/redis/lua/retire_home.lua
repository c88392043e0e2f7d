-- retire_home: keep the final record where retries ask first.
-- Keys   1 home (string)  2 open (zset)
-- Args   1 id  2 fingerprint  3 life  4 lane  5 born  6 record (json)  7 retention ms
-- Reply  {"kept"} | {"other_life"}
-- Why    a key used again after its retention has another life: its past must not overwrite it
local home = redis.call('GET', KEYS[1])
redis.call('ZREM', KEYS[2], '') -- a write that needs no memory, so that a full server lets the script pass
if home then
  local life, final = string.match(home, '^%S+ (%S+) %S+ %S+\n?(.*)$')
  if life ~= ARGV[3] then return {'other_life'} end
  if final ~= '' then
    redis.call('SETRANGE', KEYS[1], 0, string.sub(home, 1, 1))
    return {'kept'}
  end
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], table.concat({ARGV[2], ARGV[3], ARGV[5], ARGV[4]}, ' ') .. '\n' .. ARGV[6], 'PX', ARGV[7])
return {'kept'}
