#!lua flags=no-writes
-- overview: the state of a shard, and its topics by page.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, page of topics (0: no topics; first; then as the last call answered)
-- RETURNS  now_us, next due ms ("" for none), epoch, owner, held (1 or ""), leases, markers, total topics so
--          far, start of the next page ("" at the end), mark and ms of the last pump that found older data than
--          the shard once had (see `pump`; "" if none did), then 2 a topic: name, 1 with a ready queue or "". A
--          topic that exists throughout all pages is in at least one
-- COST     O(1) a topic, and a list of markers; about 500 topics a call
--# include now, registry, shard, limits, arguments, cursor, topics

arguments('overview', 2)
local cursor = ARGV[2] == 'first' and ARGV[2] or topics_cursor(ARGV[2])
local owner, topics, older = unpack(redis.call('HMGET', KEYS[1], 'owner', 'topics', 'older'))

-- Size of a key; 0 for another type, which an audit reports.
local function held_by(command, key)
  local n = redis.pcall(command, base .. key)
  return type(n) == 'number' and n or 0
end

local head = redis.pcall('ZRANGE', base .. 'alarms', 0, 0, 'WITHSCORES')[2] or ''
local markers = held_by('ZCARD', 'markers')
for _, list in ipairs(redis.pcall('ZRANGE', base .. 'ends', 0, 999)) do markers = markers + held_by('LLEN', list) end
local answer = { now_us, head, epoch, owner or '', held or '', held_by('ZCARD', 'leases'), markers,
  tonumber(topics) or 0, '', older or '' }
if cursor == '0' then return answer end
local next_page = topics_page(cursor == 'first' and '0' or cursor, 500, function(name, no)
  local n = #answer
  answer[n + 1], answer[n + 2] = name, redis.call('EXISTS', base .. 'r:' .. no, base .. 'n:' .. no) > 0 and '1' or ''
end)
if next_page ~= '0' then answer[9] = next_page end
return answer
