#!lua flags=no-writes
-- describe: the policies of topics in one shard.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 1 a topic (1 to 500): its name
-- RETURNS  for each topic the number of fields that are set, then field, value, … (see configure); 0 if the topic does not
--          exist, or its key has another type
-- COST     O(1) a topic
--# include registry, shard, limits, arguments, topic

arguments('describe', 1, 1)
local answer = {}
for i = 2, #ARGV do
  local no = topic_no(ARGV[i])
  local found = no and redis.pcall('HGETALL', base .. 't:' .. no) or {}
  answer[#answer + 1] = #found / 2
  for _, value in ipairs(found) do answer[#answer + 1] = value end
end
return answer
