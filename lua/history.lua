#!lua flags=no-writes
-- history: the events of a message, if its topic keeps a history, by page.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, id, last visited event of the topic ("" at first, then as the last page answered)
-- RETURNS  now_us, event for the next page ("" at the end), approximate number of events that the topic keeps here (0:
--          none), retention in ms, then 2 an event of the message, the oldest first: ms, event
-- COST     O(1) an event of the topic; 500 of them a call
--# include now, registry, shard, limits, arguments, topic

arguments('history', 4)
local A_PAGE = 500
local no, last = topic_no(ARGV[2]), ARGV[4]
if last ~= '' and not string.find(last, '^%d+%-%d+$') then refuse('no event: ' .. last) end
if not no then return { now_us, '', 0, 0 } end
local kept, span = unpack(redis.call('HMGET', base .. 't:' .. no, 'history', 'history_for_ms'))
span = tonumber(span) or HISTORY_FOR_MS
local answer = { now_us, '', tonumber(kept) or 0, span }
-- Older events only wait for the pump's next trim.
local from = last == '' and string.format('%.0f', math.max(now - span, 0)) or '(' .. last
local page = redis.call('XRANGE', base .. 'h:' .. no, from, '+', 'COUNT', A_PAGE)
for _, event in ipairs(page) do
  local id, what = event[2][2], event[2][4]
  if id == ARGV[3] and what then
    answer[#answer + 1], answer[#answer + 2] = string.match(event[1], '^%d+'), what
  end
end
if #page == A_PAGE then answer[2] = page[A_PAGE][1] end
return answer
