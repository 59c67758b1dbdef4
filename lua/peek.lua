#!lua flags=no-writes
-- peek: shows messages, or what is remembered of them.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 1 a message (1 to 500): id
-- RETURNS  now_us, then one envelope a message, "" where nothing is known
-- COST     O(1) and a read of the envelope a message
--# include now, shard, topic

local no = topic_no(ARGV[2])
local answer, keys = { now_us }, {}
for i = 3, #ARGV do keys[i - 2] = base .. 'm:' .. (no or '') .. ':' .. ARGV[i] end
local envs = redis.call('MGET', unpack(keys))
for i = 1, #keys do answer[i + 1] = envs[i] or '' end
return answer
