-- The index of everything that has a time: one member a bucket, and one each for the leases, the expiries, the
-- markers and their ends, scored by the earliest time inside. A score may be too early (what it stood for was cancelled),
-- never too late. The member is the key without its base.
must_be('zset', 'alarms')

-- Sees to it that the pump looks at `member` no later than `ms`.
local function alarm(member, ms)
  local nearer = redis.call('ZADD', base .. 'alarms', 'LT', 'CH', ms, member) == 1
  if nearer and (not nearest or ms < nearest) then nearest = ms end
end
