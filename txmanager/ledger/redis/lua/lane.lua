-- lane: what there is to know of a lane.
-- Keys   1 lane (hash)  2 queue (stream)  3 open (set)  4 finals (set)
-- Reply  snapshot
--@include _time
--@include _replication
--@include _snapshot
return snapshot(KEYS[1], KEYS[2], KEYS[3], KEYS[4])
