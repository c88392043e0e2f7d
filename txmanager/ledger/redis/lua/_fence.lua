-- A fence holds while epoch and token are the lane's own; else the answer names who holds it. The second answer is what
-- the lane's other fields that were asked for hold, in their order, read in the same call.
local function fenced(lane, epoch, token, ...)
  local held = redis.call('HMGET', lane, 'epoch', 'token', 'owner', ...)
  if held[1] == epoch and held[2] == token then return nil, {unpack(held, 4)} end
  return {'fenced', held[3] or '', held[1] or '0'}
end
