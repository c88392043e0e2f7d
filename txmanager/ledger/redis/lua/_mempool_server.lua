-- A server that changed may have forgotten a grant: what waits may have been sent, nothing is granted for a while, and
-- whoever holds something learns from its next heartbeat that it does not any more.
local function mind_the_server()
  local found = replication_id()
  if C.replid ~= '' and C.replid ~= found then
    C.quiet, C.doubt = now + L.quiet_ms, C.seq
    redis.call('DEL', KEYS[13])
  end
  C.replid = found
end
