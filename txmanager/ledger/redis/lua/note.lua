-- note: write an audit entry, before what it speaks of happens.
-- Keys   1 entries (stream)  2 tenants (set)
-- Args   1 tenant  2 how many entries are kept  3.. field, text
-- Reply  stream id
redis.call('SREM', KEYS[2], '') -- needs no memory: beside a full server operators must still be able to act
redis.call('SADD', KEYS[2], ARGV[1])
return redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[2], '*', unpack(ARGV, 3))
