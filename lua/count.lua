#!lua flags=no-writes
-- count: the numbers of one topic, from which its books are balanced.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, cursor (0 at first, then what the last step answered)
-- RETURNS  next cursor ("" when through), delayed in the buckets of this step, first due ms of this step or "",
--          then of the first step only: ready, leased, dead, accepted, delivered, cancelled, expired, purged,
--          replaced, buried, paused (1 or ""), rate or ""
-- COST     O(1) a bucket, 1,000 alarms a call
--# include shard, arguments, topic

arguments('count', 3)
local no, cursor = topic_no(ARGV[2]), number('the cursor', ARGV[3], 0, LAST_MS)
if not no then return { '', 0, '' } end
local prefix, delayed, first = 'b:' .. no .. ':', 0, ''
local alarms = redis.call('ZRANGE', base .. 'alarms', cursor, cursor + 999, 'WITHSCORES')
for i = 1, #alarms, 2 do
  if string.sub(alarms[i], 1, #prefix) == prefix then
    delayed = delayed + redis.call('ZCARD', base .. alarms[i])
    if first == '' then first = alarms[i + 1] end
  end
end
local answer = { #alarms == 2000 and tostring(cursor + 1000) or '', delayed, first }
if cursor == 0 then
  local function stat(name) return tonumber(redis.call('HGET', base .. 'stats', name .. ':' .. no)) or 0 end
  for _, name in ipairs({ 'ready', 'leased', 'dead', 'accepted', 'delivered', 'cancelled', 'expired', 'purged',
    'replaced', 'buried' }) do
    answer[#answer + 1] = name == 'dead' and redis.call('ZCARD', base .. 'd:' .. no) or stat(name)
  end
  local paused, rate = unpack(redis.call('HMGET', base .. 't:' .. no, 'paused', 'rate'))
  answer[#answer + 1], answer[#answer + 2] = paused or '', rate or ''
end
return answer
