-- The index of everything with a time: one member per bucket, and one each for leases, expiries, markers and their
-- ends, scored by the earliest time inside. A score may be too early (after a cancel), never too late. The member is
-- the key without its base.

-- Makes the pump check `member` no later than `ms`.
local function alarm(member, ms)
  local nearer = redis.call('ZADD', base .. 'alarms', 'LT', 'CH', ms, member) == 1
  if nearer and (not nearest or ms < nearest) then nearest = ms end
end
