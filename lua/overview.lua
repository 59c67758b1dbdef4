#!lua flags=no-writes
-- overview: what a shard says of itself, and its topics by page.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, number of the topic that the page begins with (0: no topics are asked for)
-- RETURNS  now_us, next due ms ("" for none), epoch, owner, held (1 or ""), leases, markers, how many topics it ever
--          had, number for the next page ("" when through), then 2 a topic that was not forgotten: name, 1 where it has
--          a ready queue or ""
-- COST     O(1) a topic; 500 topics a call
--# include now, shard, arguments

arguments('overview', 2)
local first = number('the first topic', ARGV[2], 0, LAST_MS)
local owner, topics = unpack(redis.call('HMGET', KEYS[1], 'owner', 'topics'))
topics = tonumber(topics) or 0
local head = redis.call('ZRANGE', base .. 'alarms', 0, 0, 'WITHSCORES')[2] or ''
local answer = { now_us, head, epoch, owner or '', held or '', redis.call('ZCARD', base .. 'leases'),
  redis.call('ZCARD', base .. 'markers'), topics, '' }
if first == 0 then return answer end
local last = math.min(topics, first + 499)
if last < topics then answer[9] = string.format('%.0f', last + 1) end
for i = first, last do
  local n, name = #answer, redis.call('HGET', base .. 't:' .. i, 'name')
  -- A `forget` that was cut off may have left what stood behind the name.
  if name and redis.call('HGET', KEYS[1], 'topic:' .. name) == tostring(i) then
    answer[n + 1], answer[n + 2] = name, redis.call('EXISTS', base .. 'r:' .. i) == 1 and '1' or ''
  end
end
return answer
