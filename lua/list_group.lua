#!lua flags=no-writes
-- list_group: shows the pending messages of a group, by due time.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, group, due ms of the message that was shown last (0 at first, then what the last page answered),
--          its name ("" at first, then what the last page answered), limit (1 to 500)
-- RETURNS  now_us, how many the group has, due ms and name for the next page (both "" when through), then 3 a message:
--          topic, id, envelope
-- COST     O(log n) and a read of the envelope a message, n = messages of the group
--# include now, registry, shard, type, limits, arguments, stats, nearest, alarm, format, envelope, hour, bucket, look, page

arguments('list_group', 5)
local index = base .. 'g:' .. ARGV[2]
number('the due time', ARGV[3], 0, LAST_MS)
local limit, names = number('the limit', ARGV[5], 1, MOST_IDS), {}
local page = page_behind(index, ARGV[3], ARGV[4], limit)
local through = #page < 2 * limit
local answer = { now_us, redis.call('ZCARD', index), through and '' or page[#page], through and '' or page[#page - 1] }
for i = 1, #page, 2 do
  local no, id = string.match(page[i], '^(%d+):(.*)$')
  local env = no and shown(no, id)
  if env then
    names[no] = names[no] or redis.call('HGET', base .. 't:' .. no, 'name') or ''
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = names[no], id, env
  end
end
return answer
