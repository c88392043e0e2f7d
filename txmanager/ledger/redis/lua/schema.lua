-- schema: which formats this installation may write. One without lanes may write the newest; another one may when an
-- operator said that nothing older runs.
-- Keys   1 routes (hash)  2 schema (string)
-- Args   1 the newest of ours  2 "raise" | ""
-- Reply  the schema
-- Why    an older release reads a newer format wrongly, and does not notice
redis.call('HDEL', KEYS[1], '') -- needs no memory: a worker that restarts beside a full server must come up
local known = redis.call('GET', KEYS[2])
if not known or ARGV[2] == 'raise' then
  local new = ARGV[2] == 'raise' or redis.call('HLEN', KEYS[1]) == 0
  known = math.max(tonumber(known or 1), new and tonumber(ARGV[1]) or 1)
end
redis.call('SET', KEYS[2], known) -- again, too, so that a WAIT behind it means something
return tonumber(known)
