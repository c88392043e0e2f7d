-- usage: a budget as it stands.
-- Keys   1 book (hash)  2 spent (hash)  3 history (string)
-- Args   1 "vouched" | ""
-- Reply  {open, override | "", 1 if the store may have lost charges, now, costs by bucket}
--@include _time
--@include _replication
--@include _budget
return usage(KEYS[1], KEYS[2], KEYS[3], ARGV[1], clock())
