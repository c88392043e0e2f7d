-- What a token holds on a keyless lane: "nonce state at until hash=id ..." in one field; "-" is no number yet.
local function held(reservations, token)
  local told = redis.call('HGET', reservations, token)
  if not told then return nil end
  local nonce, state, at, till, sent = string.match(told, '^(%S+) (%S+) (%S+) (%S+)(.*)$')
  return {nonce = nonce, state = state, at = at, till = till, sent = sent}
end
local function keep(reservations, deadlines, token, nonce, state, at, till, sent)
  redis.call('HSET', reservations, token, nonce .. ' ' .. state .. ' ' .. at .. ' ' .. till .. sent)
  redis.call('ZADD', deadlines, till, token)
end
-- Whether the chain is past a number: the highest count it was seen at, or the highest of ours seen final, says so.
local function spent(nonce, floor, landed)
  return (floor and below(nonce, floor)) or (landed and not below(landed, nonce))
end
