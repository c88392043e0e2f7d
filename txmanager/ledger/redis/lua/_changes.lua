-- Readers of the registry read what changed since they last looked; those that are too late for it read all.
local function changed(revision, changes, lane)
  local n = redis.call('INCR', revision)
  redis.call('XADD', changes, 'MAXLEN', '~', '4096', string.format('%.0f-0', n), 'l', lane)
end
