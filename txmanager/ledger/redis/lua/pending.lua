-- pending: which intents have attempts and no end yet, for one who does not own the lane.
-- Keys   1 lane (hash)  2 queue (stream)  3 open (set)
-- Reply  {id, ...}
--@include _unfinished
return unfinished(KEYS[1], KEYS[2], KEYS[3])
