#!lua flags=no-writes
-- list_group: shows the pending messages of a group, by due time.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, group, offset, limit (1 to 500)
-- RETURNS  now_us, how many the group has, then 3 a message: topic, id, envelope
-- COST     O(log n) and a read of the envelope a message, n = messages of the group
--# include now, shard, arguments, topic, alarm, envelope, bucket, look

arguments('list_group', 4)
local index = base .. 'g:' .. ARGV[2]
local offset, limit = number('the offset', ARGV[3], 0, LAST_MS), number('the limit', ARGV[4], 1, MOST_IDS)
local answer, names = { now_us, redis.call('ZCARD', index) }, {}
for _, name in ipairs(redis.call('ZRANGE', index, offset, offset + limit - 1)) do
  local no, id = string.match(name, '^(%d+):(.*)$')
  names[no] = names[no] or redis.call('HGET', base .. 't:' .. no, 'name') or ''
  local n = #answer
  answer[n + 1], answer[n + 2] = names[no], id
  answer[n + 3] = shown(no, id) or ''
end
return answer
