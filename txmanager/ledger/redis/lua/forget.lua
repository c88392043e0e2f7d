-- forget: delete a claim that never got a record, if nobody touched it since it was read.
-- Keys   1 home (string)  2 open (zset)
-- Args   1 id  2 life  3 born
-- Reply  {"gone"} | {"kept"}
-- Why    a paused producer may renew its claim between the sweeper's two reads
local home = redis.call('GET', KEYS[1])
if not home then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'kept'}
end
local life, born, final = string.match(home, '^%S+ (%S+) (%S+) %S+\n?(.*)$')
if final ~= '' or life ~= ARGV[2] or born ~= ARGV[3] then return {'kept'} end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return {'gone'}
