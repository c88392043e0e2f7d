-- uncharge: take back a charge whose intent was not accepted, if nobody charged it again.
-- Keys   per charge: book (hash), spent (hash), agenda (zset), history (string)
-- Args   per charge: name, life, turn
-- Reply  per charge 1 | 0
-- Why    another process may go on with the same claim, and then the charge is its own
--@include _time
--@include _replication
--@include _budget
local replies = {}
for i = 1, #KEYS / 4 do
  local name, life, turn = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local book, spent, agenda = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1]
  local units, stands = string.match(redis.call('HGET', book, 'o:' .. life) or '', '^(%d+) (%d+)')
  if units and stands == turn then
    take_out(book, spent, agenda, name, life, units)
    replies[i] = 1
  else
    replies[i] = 0
  end
end
return replies
