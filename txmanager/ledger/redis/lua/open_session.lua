-- open_session: use up a code and open a session, in one step.
-- Keys   1 codes (hash)  2 sessions (hash)
-- Args   1 code  2 session  3 lasts ms  4 how many are kept  5 origin
-- Reply  {"opened", "ends opened origin"} | {"refused", ""}
-- Why    of two who bring the same code, one gets a session
--@include _time
--@include _passes
local now = clock()
touch(KEYS[2], now)
keep_for(KEYS[2], '60000')
local open = redis.call('HGET', KEYS[2], ARGV[2])
if open then return {'opened', open} end -- the reply was lost
local ends = redis.call('HGET', KEYS[1], ARGV[1])
if not ends then return {'refused', ''} end
redis.call('HDEL', KEYS[1], ARGV[1])
if tonumber(ends) <= now then return {'refused', ''} end
local text = digits(now + ARGV[3]) .. ' ' .. digits(now) .. ' ' .. ARGV[5]
add_pass(KEYS[2], ARGV[2], text, ARGV[3], ARGV[4])
return {'opened', text}
