#!lua flags=no-writes
-- paused_groups: the paused groups of a topic in one shard, the longest paused first, by page.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, since ms of the last group ("" at first), name of that group ("" at first), limit (1 to 500)
-- RETURNS  2 a group: name, paused since ms; fewer groups than the limit at the end
-- COST     O(log n) a group, n = paused groups of the topic
--# include registry, shard, limits, arguments, topic, page

arguments('paused_groups', 5)
local no, since, last = topic_no(ARGV[2]), ARGV[3], ARGV[4]
if since ~= '' then number('since', since, 0, LAST_MS) end
local limit = number('the limit', ARGV[5], 1, MOST_IDS)
if not no then return {} end
return page_behind(base .. 'q:' .. no, since == '' and '-inf' or since, last, limit)
