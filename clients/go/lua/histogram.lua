#!lua flags=no-writes
-- histogram: number of messages of a topic by due time.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, from ms, to ms (exclusive), width ms (60,000 to 3,600,000, a divisor of an hour)
-- RETURNS  next from ms ("" at the end), then start ms and count of each nonempty interval
-- COST     O(log n) an interval; at most 24 nonempty and 200 empty hours a call
--# include now, registry, shard, limits, arguments, topic, stats, nearest, alarm, format, envelope, hour, bucket, look

arguments('histogram', 5)
local no = topic_no(ARGV[2])
local from, to = number('from', ARGV[3], 0, LAST_MS), number('to', ARGV[4], 0, LAST_MS + 1)
local width = number('the width in ms', ARGV[5], 60000, 3600000)
if HOUR_MS % width ~= 0 then refuse('the width of ' .. width .. ' ms must divide an hour') end
local answer = { '' }
if not no then return answer end
local hours, looked = 0, 0
for bucket, at in hours_of(no, math.floor(from / HOUR_MS)) do
  local hour, had = at * HOUR_MS, #answer
  if hour >= to then break end
  for start = hour, hour + HOUR_MS - width, width do
    local low, high = math.max(start, from), math.min(start + width, to) - 1
    local n = low <= high and redis.pcall('ZCOUNT', base .. bucket, low, high) or 0
    -- A key of another type holds no messages: an audit reports it.
    if type(n) == 'number' and n > 0 then answer[#answer + 1], answer[#answer + 2] = string.format('%.0f', start), n end
  end
  looked = looked + 1
  if #answer > had then hours = hours + 1 end
  if hours == 24 or looked == 200 then
    if hour + HOUR_MS < to then answer[1] = string.format('%.0f', hour + HOUR_MS) end
    break
  end
end
return answer
