-- fill: write no-ops ahead for nonces that belong to no intent, and forget those that are over.
-- Keys   1 lane (hash)  2 fills (hash)  3 finals (set)  4.. record (hash) of one that landed
-- Args   1 epoch  2 token  3 number of names to forget, the names, then per one that landed: name, attempt (blob), id,
--        life, status, outcome (json), then per no-op: name, nonce, attempt (blob)
-- Reply  {"ok", fills} | {"refused", entry, why} | {"rolled_back", stored, found} | {"fenced", owner, epoch}
-- Why    a nonce that nobody signs stops an EVM lane for ever; what is sent for it is recorded before, as all bytes are
--@include _time
--@include _decimal
--@include _fence
--@include _replication
local out = fenced(KEYS[1], ARGV[1], ARGV[2])
if out then return out end
local lane = redis.call('HMGET', KEYS[1], 'cursor', 'replid', 'state', 'archive')
local ended = 4 + ARGV[3]
local first, new = ended + 6 * (#KEYS - 3), {}
for at = first, #ARGV, 3 do
  if redis.call('HEXISTS', KEYS[2], ARGV[at]) == 0 then
    new[#new + 1] = at
  end
end
if #new > 0 then
  local found = replication_id()
  if lane[2] ~= found then return {'rolled_back', lane[2], found} end
  if lane[3] == 'quarantined' then return {'refused', 'lane', 'the lane is quarantined'} end
end
for _, at in ipairs(new) do
  if not lane[1] or not below(ARGV[at + 1], lane[1]) then
    return {'refused', ARGV[at], 'is not below the cursor'}
  end
end
redis.call('HDEL', KEYS[2], '') -- needs no memory: it is what lets a lane go on
local now = digits(clock())
for i = 4, #KEYS do -- what it took left the lane: an archive counts it, once
  local at = ended + 6 * (i - 4)
  if lane[4] and redis.call('HEXISTS', KEYS[2], ARGV[at]) == 1 then
    redis.call('HSET', KEYS[i], 's', ARGV[at + 4], 'l', ARGV[at + 3], 'f', '', 'k', 'fill', 'm', '', 'i', now .. '-0',
      't', now, 'u', now, 'o', ARGV[at + 5], 'a:' .. ARGV[at], ARGV[at + 1], 'p', '{}')
    redis.call('SADD', KEYS[3], ARGV[at + 2])
  end
end
for at = 4, ended - 1 do redis.call('HDEL', KEYS[2], ARGV[at]) end
for _, at in ipairs(new) do redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 2]) end
redis.call('HINCRBY', KEYS[1], 'touch', 1)
return {'ok', redis.call('HGETALL', KEYS[2])}
