-- Which history this server writes: it changes at a failover and at a restart, the two moments data can be lost.
local function replication_id()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
end
