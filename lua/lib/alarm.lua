-- The index of everything that has a time: one member a bucket, and one each for the leases, the expiries and
-- the markers, scored by the earliest time inside. A score may be too early (what it stood for was cancelled),
-- never too late. The member is the key without its base.
local earliest, sooner = math.huge, false
do
  local head = redis.pcall('ZRANGE', base .. 'alarms', '0', '0', 'WITHSCORES')
  if head.err then must_be('zset', 'alarms') end
  if head[2] then earliest = tonumber(head[2]) end
end

-- Sees to it that the pump looks at `member` no later than `ms`.
local function alarm(member, ms)
  redis.call('ZADD', base .. 'alarms', 'LT', ms, member)
  if ms < earliest then earliest, sooner = ms, true end
end

-- Tells the timer, once and last, where the shard's next due time has come nearer.
local function wake_timer()
  if sooner then redis.call('SPUBLISH', base .. 'wake', string.format('%.0f', earliest)) end
end
