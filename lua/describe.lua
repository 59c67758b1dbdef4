#!lua flags=no-writes
-- describe: the policy of a topic in one shard.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic
-- RETURNS  every field that is set, as field, value, … (see configure); nothing if the topic does not exist, or its
--          key has another type
-- COST     O(1)
--# include registry, shard, type, limits, arguments, topic

arguments('describe', 2)
local no = topic_no(ARGV[2])
local found = no and redis.pcall('HGETALL', base .. 't:' .. no) or {}
return found.err and {} or found
