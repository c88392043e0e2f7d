-- The server's clock in whole milliseconds: no client's clock ever decides.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function digits(n) return string.format('%.0f', n) end
