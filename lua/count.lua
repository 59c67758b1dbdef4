#!lua flags=no-writes
-- count: the counters of one topic, for balancing the books.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, the first hour (0 at first, then as the last step answered)
-- RETURNS  the next hour ("" at the end), delayed in the buckets of this step, first due ms of this step or "",
--          then of the first step only: ready, leased, dead, accepted, delivered, cancelled, expired, purged,
--          replaced, buried, paused (1 or ""), rate or "", number of keys of another type (their contents are not counted),
--          ready ms of the head of the ready queue or "", the earlier of that and the due times of leased messages (the
--          first 500 leases of the shard) or "", number of groups with parked messages and without
--          a turn, of paused groups, and of failed messages that block their groups
-- COST     O(log n) an hour with any alarm, n = alarms; 1,000 hours a call. O(1) a leased message
--# include now, registry, shard, limits, arguments, topic, stats, nearest, alarm, format, envelope, hour, bucket, look, head

arguments('count', 3)
local no, hour = topic_no(ARGV[2]), number('the hour', ARGV[3], 0, LAST_MS)
if not no then return { '', 0, '' } end
local answer, looked, unreadable = { '', 0, '' }, 0, 0

-- A command's answer, or `instead` if the key has another type.
local function ask(instead, ...)
  local found = redis.pcall(...)
  if type(found) ~= 'table' or not found.err then return found end
  unreadable = unreadable + 1
  return instead
end

-- A lease says when it ends, and not since when its message was due.
local function leased_since()
  local since, prefix = nil, no .. ':'
  for _, receipt in ipairs(redis.pcall('ZRANGE', base .. 'leases', 0, MOST_IDS - 1)) do
    if string.sub(receipt, 1, #prefix) == prefix then
      local m = read(no, string.sub(receipt, #prefix + 1, -5))
      if m and m.state == LEASED then since = math.min(since or m.due, m.due) end
    end
  end
  return since
end

for bucket, at in hours_of(no, hour) do
  if looked == MOST_HOURS then
    answer[1] = string.format('%.0f', at)
    break
  end
  looked = looked + 1
  local delayed = ask(0, 'ZCARD', base .. bucket)
  answer[2] = answer[2] + delayed
  if answer[3] == '' and delayed > 0 then answer[3] = redis.call('ZRANGE', base .. bucket, 0, 0, 'WITHSCORES')[2] or '' end
end
if hour == 0 then
  local names = { 'ready', 'leased', 'dead', 'accepted', 'delivered', 'cancelled', 'expired', 'purged', 'replaced', 'buried' }
  local fields = {}
  for i, name in ipairs(names) do fields[i] = name .. ':' .. no end
  local stats = ask({}, 'HMGET', base .. 'stats', unpack(fields))
  for i, name in ipairs(names) do
    answer[#answer + 1] = name == 'dead' and ask(0, 'ZCARD', base .. 'd:' .. no) or tonumber(stats[i] or '') or 0
  end
  local of_groups = {}
  for i, index in ipairs({ 'k:', 'q:', 'x:', 'n:' }) do of_groups[i] = ask(0, 'ZCARD', base .. index .. no) end
  of_groups[1] = math.max(of_groups[1] - table.remove(of_groups), 0)
  local paused, rate = unpack(ask({}, 'HMGET', base .. 't:' .. no, 'paused', 'rate'))
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = paused or '', rate or '', unreadable
  -- A queue without a ready message holds stale entries at the most.
  local ready_us = answer[4] > 0 and head_ready_us(no)
  local ready = ready_us and math.floor(ready_us / 1000) or math.huge
  local unhandled = math.min(ready, answer[5] > 0 and leased_since() or math.huge)
  for _, since in ipairs({ ready, unhandled }) do
    answer[#answer + 1] = since < math.huge and string.format('%.0f', since) or ''
  end
  for _, number_of in ipairs(of_groups) do answer[#answer + 1] = number_of end
end
return answer
