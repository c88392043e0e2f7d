-- mempool_take: grant heads to one instance, first what a dead or late holder left.
-- Keys   as in _mempool
-- Args   1 limits  2 owner  3 call  4 how many
-- Reply  {{grant, bytes}, ...}, how many were taken from a holder, ms until the next deadline | ""
-- Why    one sender has one transaction under way on all instances together, and only its own bytes are sent again
--@include _time
--@include _replication
--@include _mempool
--@include _mempool_server
--@include _mempool_grant
redis.call('ZREM', KEYS[7], '') -- needs no memory: a full server must not stop sends
mind_the_server()
local owner, call, most = ARGV[2], ARGV[3], tonumber(ARGV[4])
local flat = redis.call('HGETALL', KEYS[10])
for i = 1, #flat, 2 do holds[flat[i]] = unfold_hold(flat[i + 1]) end
local function next_ms()
  local times = {}
  local due = redis.call('ZRANGE', KEYS[11], 0, 0, 'WITHSCORES')[2]
  if due then times[1] = tonumber(due) end
  for _, h in pairs(holds) do
    if h then
      local _, last = heard(h.owner)
      times[#times + 1] = last and math.min(h.till, last + L.alive_ms) or now
    end
  end
  local quiet = C.quiet > now and redis.call('HLEN', KEYS[5]) > 0
  if quiet then times[#times + 1] = C.quiet end
  local first
  for _, at in ipairs(times) do
    if quiet and at < C.quiet then at = C.quiet end
    if not first or at < first then first = at end
  end
  return first and digits(math.max(0, first - now)) or ''
end
local function with_bytes(told)
  local found = {}
  for _, one in ipairs(told) do found[#found + 1] = {one, redis.call('HGET', KEYS[6], one[1])} end
  return found
end
local mine = {}
for address, h in pairs(holds) do
  if h.call == call and h.owner == owner then mine[#mine + 1] = tell(address, h) end
end
if #mine > 0 then return {with_bytes(mine), 0, next_ms()} end
-- Pauses that are over; and what a node had for long enough goes again, lowest nonce first.
for _, address in ipairs(redis.call('ZRANGEBYSCORE', KEYS[11], '-inf', digits(now), 'LIMIT', 0, L.page)) do
  local s = sender(address)
  redis.call('ZREM', KEYS[11], address)
  if s.paused <= now then
    s.paused = 0
  else
    wake_at(s, s.paused)
  end
  if L.resend_ms > 0 then
    for _, nonce in ipairs(nonces_from(s, s.count)) do
      local t = newest(s, nonce)
      if t.state == 'sent' then
        if t.moved + L.resend_ms <= now then
          move(t, 'unsure')
        else
          wake_at(s, t.moved + L.resend_ms)
        end
      end
    end
  end
  walk(s)
  arrange(s)
end
local grants, forced = {}, 0
if may_grant(owner) then
  local late = {}
  for address, h in pairs(holds) do
    if h and lapsed(h) then late[#late + 1] = {address, h} end
  end
  table.sort(late, function(a, b)
    if a[2].till ~= b[2].till then return a[2].till < b[2].till end
    return a[1] < b[1]
  end)
  for i = 1, math.min(most, #late) do
    grants[i] = grant(sender(late[i][1]), tx(late[i][2].hash), owner, call, '-')
    forced = i
  end
  while #grants < most do
    local one = grant_best(owner, call, '-')
    if not one then break end
    grants[#grants + 1] = one
  end
end
local answer = {with_bytes(grants), forced, next_ms()}
flush()
return answer
