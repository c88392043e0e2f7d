-- Room in the queue by owner: fields `n:<owner>` (intents) and `b:<owner>` (bytes) of the lane; a record remembers its
-- own share in `q`, "owner bytes", and gives it back when it leaves the queue.
local function give_back(lane, shares)
  local owed = {}
  for _, share in ipairs(shares) do
    local owner, size = string.match(share, '^(%S+) (%d+)$')
    local sum = owed[owner] or {0, 0}
    owed[owner] = {sum[1] + 1, sum[2] + size}
  end
  for owner, sum in pairs(owed) do
    local left = redis.call('HINCRBY', lane, 'n:' .. owner, -sum[1])
    redis.call('HINCRBY', lane, 'b:' .. owner, -sum[2])
    if left <= 0 then redis.call('HDEL', lane, 'n:' .. owner, 'b:' .. owner) end
  end
end
