-- A fence holds while epoch and token are the lane's own; else the answer names who holds it.
local function fenced(lane, epoch, token)
  local held = redis.call('HMGET', lane, 'epoch', 'token', 'owner')
  if held[1] == epoch and held[2] == token then return nil end
  return {'fenced', held[3] or '', held[1] or '0'}
end
