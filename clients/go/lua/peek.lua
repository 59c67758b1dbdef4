#!lua flags=no-writes
-- peek: shows messages, or their markers.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 1 a message (1 to 500): id
-- RETURNS  now_us, then one envelope a message, "" if unknown
-- COST     O(1) and a read of the envelope a message
--# include now, registry, shard, type, limits, arguments, topic, stats, nearest, alarm, format, envelope, hour, bucket, look

arguments('peek', 2, 1)
local no = topic_no(ARGV[2])
local answer = { now_us }
for i = 3, #ARGV do answer[i - 1] = no and shown(no, ARGV[i]) or '' end
return answer
