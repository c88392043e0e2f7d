-- end_session: end one session.
-- Keys   1 sessions (hash)
-- Args   1 session
-- Reply  1 | 0 when there was none
--@include _time
--@include _passes
touch(KEYS[1], clock())
keep_for(KEYS[1], '60000')
return redis.call('HDEL', KEYS[1], ARGV[1])
