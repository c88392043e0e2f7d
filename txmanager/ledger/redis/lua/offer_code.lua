-- offer_code: leave a code that buys one session.
-- Keys   1 codes (hash)
-- Args   1 code  2 lasts ms  3 how many are kept
-- Reply  "offered"
--@include _time
--@include _passes
local now = clock()
touch(KEYS[1], now)
add_pass(KEYS[1], ARGV[1], digits(now + ARGV[2]), ARGV[2], ARGV[3])
return 'offered'
