#!lua flags=allow-oom
-- forget: takes an empty topic out of the shard, with its policy and its counters. Its number is not given out again.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, look | forget
-- RETURNS  unknown (nothing was ever put into it, or it was forgotten) | kept <why> (it holds messages in any state,
--          or may) | empty (and so it stays: it was only looked at) | forgotten (markers of its
--          messages stay until their time is over, but no put finds them any more)
-- COST     O(log n) and 500 keys for each 500 hours in which there is any alarm, n = alarms; 50,000 hours at most. O(topics) where
--          any topic keeps a history or asks for durability
--# include now, registry, shard, type, nearest, alarm, limits, arguments, topic, topics, hour, histories, durabilities, empty

arguments('forget', 3)
local what = one_of('what to do', ARGV[3], { 'look', 'forget' })
local no = topic_no(ARGV[2])
if not no then return 'unknown' end
must_be('hash', 'stats')
local why = holds(no)
if why then return 'kept ' .. why end
if what == 'look' then return 'empty' end
forget_topic(ARGV[2], no)
if any_history then note_histories() end
if redis.call('HGET', KEYS[1], 'durabilities') then note_durabilities() end
return 'forgotten'
