-- rebuilt: let the budgets of a place be charged again, in the history that they were rebuilt in.
-- Keys   1 history (string)
-- Args   1 "vouched" | ""  2 the history that was found before the records were read | "" to ask
-- Reply  {stored, found} to a question | 1 | 0 (it changed again meanwhile)
-- Why    a place that moved while its records were read was rebuilt from the wrong ones
--@include _replication
local stored, found = redis.call('GET', KEYS[1]), replication_id()
if ARGV[2] == '' then return {stored or found, found} end
if ARGV[2] ~= found then return 0 end
redis.call('SET', KEYS[1], found)
return 1
