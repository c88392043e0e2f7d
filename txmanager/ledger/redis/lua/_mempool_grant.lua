-- Granting: who may send what, until when.
local hearts = {}
local function heard(owner)
  if not hearts[owner] then
    local since, last = string.match(redis.call('HGET', KEYS[13], owner) or '', '^(%d+) (%d+)$')
    hearts[owner] = {tonumber(since), tonumber(last)}
  end
  return hearts[owner][1], hearts[owner][2]
end
-- A living instance, on a store that is neither new nor forgetful.
local function may_grant(owner)
  local _, last = heard(owner)
  return last ~= nil and now - last < L.alive_ms and now >= C.quiet
end
local function lapsed(h)
  local since, last = heard(h.owner)
  if not last or now - last >= L.alive_ms or since > h.at then return true end
  return now >= h.till
end
local function tell(address, h)
  local t = tx(h.hash)
  return {
    t.hash, address, t.nonce, h.fence, digits(math.max(0, h.till - now)), h.again, digits(t.tries),
    digits(math.max(0, h.at - t.at)), digits(sender(address).waiting)
  }
end
local function grant(s, t, owner, call, after)
  local again = (t.state ~= 'waiting' or t.seq <= C.doubt) and '1' or '0'
  if t.state ~= 'processing' then move(t, 'processing') end
  t.tries = t.tries + 1
  C.fence = C.fence + 1
  local fence = digits(C.fence) .. '.' .. call
  local h = {
    owner = owner, fence = fence, call = call, nonce = t.nonce, hash = t.hash, at = now, till = now + L.hold_ms,
    again = again, after = after
  }
  redis.call('HSET', KEYS[10], s.address, fold(h, hold_fields))
  holds[s.address] = h
  arrange(s)
  return tell(s.address, h)
end
local function best()
  local first = redis.call('ZREVRANGE', KEYS[7], 0, 0)[1]
  return first and sender(string.sub(first, -42))
end
local function grant_best(owner, call, after)
  local s = best()
  if not s or redis.call('HLEN', KEYS[10]) >= L.executors or not may_grant(owner) then return nil end
  local t = head(s)
  if t.state == 'waiting' and C.kept_bytes > 0 and C.kept_bytes + t.size > L.kept_bytes then return nil end
  return grant(s, t, owner, call, after)
end
