#!lua flags=allow-oom
-- forget: removes an empty topic from the shard, with policy and counters. The topic's number is never reused.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, look | forget
-- RETURNS  unknown (never used, or forgotten) | kept <why> (the topic holds, or may hold,
--          messages) | empty (only checked) | forgotten (markers of the topic's messages stay
--          until they expire, but no put finds them any more)
-- COST     O(log n) and 500 keys for each 500 hours with any alarm, n = alarms; 50,000 hours at most. O(topics) if
--          any topic keeps a history or requires durability
--# include now, registry, shard, nearest, alarm, limits, arguments, topic, topics, hour, histories, durabilities, empty

arguments('forget', 3)
local what = one_of('what to do', ARGV[3], { 'look', 'forget' })
local no = topic_no(ARGV[2])
if not no then return 'unknown' end
local why = holds(no)
if why then return 'kept ' .. why end
if what == 'look' then return 'empty' end
forget_topic(ARGV[2], no)
if any_history or any_fair then note_topics() end
if redis.call('HGET', KEYS[1], 'durabilities') then note_durabilities() end
return 'forgotten'
