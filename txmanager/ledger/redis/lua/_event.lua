-- One event per transition, in the same step that makes it. Only this stream is ever trimmed.
local function event(events, id, status, at, hash, err)
  if hash ~= '' and err ~= '' then
    redis.call('XADD', events, 'MAXLEN', '~', '10000', '*', 'i', id, 's', status, 't', at, 'h', hash, 'e', err)
  elseif hash ~= '' then
    redis.call('XADD', events, 'MAXLEN', '~', '10000', '*', 'i', id, 's', status, 't', at, 'h', hash)
  elseif err ~= '' then
    redis.call('XADD', events, 'MAXLEN', '~', '10000', '*', 'i', id, 's', status, 't', at, 'e', err)
  else
    redis.call('XADD', events, 'MAXLEN', '~', '10000', '*', 'i', id, 's', status, 't', at)
  end
end
