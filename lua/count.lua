#!lua flags=no-writes
-- count: the numbers of one topic, from which its books are balanced.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, the hour to begin with (0 at first, then what the last step answered)
-- RETURNS  the hour to go on with ("" when through), delayed in the buckets of this step, first due ms of this step or "",
--          then of the first step only: ready, leased, dead, accepted, delivered, cancelled, expired, purged,
--          replaced, buried, paused (1 or ""), rate or ""
-- COST     O(log n) an hour that has any alarm, n = alarms; 1,000 hours a call
--# include now, registry, shard, type, limits, arguments, topic, stats, nearest, alarm, format, envelope, hour, bucket, look

arguments('count', 3)
local no, hour = topic_no(ARGV[2]), number('the hour', ARGV[3], 0, LAST_MS)
if not no then return { '', 0, '' } end
local answer, looked = { '', 0, '' }, 0
for bucket, at in hours_of(no, hour) do
  if looked == MOST_HOURS then
    answer[1] = string.format('%.0f', at)
    break
  end
  looked = looked + 1
  answer[2] = answer[2] + redis.call('ZCARD', base .. bucket)
  if answer[3] == '' then answer[3] = redis.call('ZRANGE', base .. bucket, 0, 0, 'WITHSCORES')[2] or '' end
end
if hour == 0 then
  local function stat(name) return tonumber(redis.call('HGET', base .. 'stats', name .. ':' .. no)) or 0 end
  for _, name in ipairs({ 'ready', 'leased', 'dead', 'accepted', 'delivered', 'cancelled', 'expired', 'purged',
    'replaced', 'buried' }) do
    answer[#answer + 1] = name == 'dead' and redis.call('ZCARD', base .. 'd:' .. no) or stat(name)
  end
  local paused, rate = unpack(redis.call('HMGET', base .. 't:' .. no, 'paused', 'rate'))
  answer[#answer + 1], answer[#answer + 2] = paused or '', rate or ''
end
return answer
