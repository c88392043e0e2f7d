-- One event per transition, in the same step that makes it. Only this stream is ever trimmed.
local function event(events, id, status, at, hash, err)
  local fields = {'i', id, 's', status, 't', digits(at)}
  if hash ~= '' then fields[7], fields[8] = 'h', hash end
  if err ~= '' then fields[#fields + 1] = 'e'; fields[#fields + 1] = err end
  redis.call('XADD', events, 'MAXLEN', '~', '10000', '*', unpack(fields))
end
