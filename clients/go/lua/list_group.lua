#!lua flags=no-writes
-- list_group: shows the pending messages of a group, by due time.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, group, due ms of the last shown message (0 at first, then as the last page answered),
--          name of that message ("" at first, then as the last page answered), limit (1 to 500)
-- RETURNS  now_us, size of the group, due ms and name for the next page (both "" at the end), then 3 a message:
--          topic, id, envelope
-- COST     O(log n) and a read of the envelope a message, n = messages of the group; a page ends at 512 KiB of envelopes
--# include now, registry, shard, limits, arguments, stats, nearest, alarm, format, envelope, fields, hour, bucket, look, shown, page

arguments('list_group', 5)
local index = base .. 'g:' .. ARGV[2]
number('the due time', ARGV[3], 0, LAST_MS)
local limit, names = number('the limit', ARGV[5], 1, MOST_IDS), {}
local page = page_behind(index, ARGV[3], ARGV[4], limit)
local answer, bytes = { now_us, redis.call('ZCARD', index), '', '' }, 0
-- The name of a topic, or its number without a readable name.
local function name_of(no)
  local name = redis.pcall('HGET', base .. 't:' .. no, 'name')
  return type(name) == 'string' and name or '#' .. no
end

for i = 1, #page, 2 do
  local no, id = string.match(page[i], '^(%d+):(.*)$')
  local env = no and shown(no, id)
  if env then
    names[no] = names[no] or name_of(no)
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3], bytes = names[no], id, env, bytes + #env
  end
  if i == 2 * limit - 1 or bytes >= MOST_PAGE_BYTES then
    answer[3], answer[4] = page[i + 1], page[i]
    break
  end
end
return answer
