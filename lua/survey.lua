#!lua flags=no-writes
-- survey: the work for consumers in a shard, now and soon, partly by page of topics.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, page of topics (0 at first, then as the last call answered), then 1 a span (1 to 500): ms from now
-- RETURNS  start of the next page (0 at the end), ready messages of the topics of the page, the held ones among them (no
--          reserve may take them now, because of their groups or a pause: at least so many), leased messages of the shard,
--          age in ms of the oldest head of the page's ready queues ("" without a ready message), then for each span the
--          number of delayed messages of the shard due by its end, in the first 100 due buckets
-- COST     O(1) a topic, about 200 a call, and a group with a turn, up to 100 a topic; O(log n) a bucket due within the
--          longest span, for each span
--# include now, registry, shard, limits, arguments, cursor, topics, head

arguments('survey', 2, 1)
local cursor = topics_cursor(ARGV[2])
-- A key of another type holds nothing: the pump and an audit report it.
local leases = redis.pcall('ZCARD', base .. 'leases')
local answer, ends, texts, last = { '0', 0, 0, type(leases) == 'number' and leases or 0, '' }, {}, {}, now
for i = 3, #ARGV do
  local at = now + number('the span in ms', ARGV[i], 1, LONGEST_SPAN_MS)
  ends[i - 2], texts[i - 2], answer[i + 3], last = at, string.format('%.0f', at), 0, math.max(last, at)
end

local function length(key)
  local found = redis.pcall('LLEN', base .. key)
  return type(found) == 'number' and found or 0
end

-- Number of a topic's ready messages that wait for their groups, or for the end of a pause. Counts what a reserve may take, since lists also hold stale
-- entries: these would hide work.
local function held_of(no, ready)
  local paused, most = unpack(redis.pcall('HMGET', base .. 't:' .. no, 'paused', 'group_in_flight'))
  if paused then return ready end
  if redis.call('EXISTS', base .. 'k:' .. no) == 0 then return 0 end
  local free = length('r:' .. no)
  most = tonumber(most) or 0
  local turns = redis.pcall('ZRANGE', base .. 'n:' .. no, 0, 100)
  if #turns > 100 then return 0 end
  -- The next reserve gives these a turn.
  for _, group in ipairs(redis.pcall('ZRANGEBYSCORE', base .. 'y:' .. no, '-inf', now_us, 'LIMIT', 0, 100)) do turns[#turns + 1] = group end
  for _, group in ipairs(turns) do
    local parked = length('p:' .. no .. ':' .. group)
    free = free + (most > 0 and math.min(parked, most) or parked)
  end
  return math.max(ready - free, 0)
end

local nos, names, oldest_us = {}, {}, nil
answer[1] = topics_page(cursor, 200, function(_, no) nos[#nos + 1], names[#names + 1] = no, 'ready:' .. no end)
for from = 1, #names, 500 do
  local counts = redis.pcall('HMGET', base .. 'stats', unpack(names, from, math.min(from + 499, #names)))
  for i, ready in ipairs(counts) do
    ready = tonumber(ready) or 0
    answer[2] = answer[2] + ready
    if ready > 0 then answer[3] = answer[3] + held_of(nos[from + i - 1], ready) end
    local since = ready > 0 and head_ready_us(nos[from + i - 1])
    if since then oldest_us = math.min(oldest_us or now_us, since) end
  end
end
if oldest_us then answer[5] = string.format('%.0f', math.floor((now_us - oldest_us) / 1000)) end

local pcall, find = redis.pcall, string.find
local due = pcall('ZRANGEBYSCORE', base .. 'alarms', '-inf', string.format('%.0f', last), 'WITHSCORES', 'LIMIT', 0, 100)
for j = 1, #due, 2 do
  local first = tonumber(due[j + 1])
  for i = 1, find(due[j], '^b:') and #ends or 0 do
    local found = first <= ends[i] and pcall('ZCOUNT', base .. due[j], '-inf', texts[i])
    if type(found) == 'number' then answer[i + 5] = answer[i + 5] + found end
  end
end
return answer
