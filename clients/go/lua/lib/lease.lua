-- Lease durations, and the longest ever given by the shard: a lease with a later end was taken while the clock read
-- ahead, and the pump shortens it.

-- The lease of a topic in ms, from its policy.
local function topic_lease(text)
  return math.max(math.min(tonumber(text) or LEASE_MS, LONGEST_LEASE_MS), 1)
end

local function longest_lease()
  return tonumber(redis.call('HGET', KEYS[1], 'longest_lease')) or LEASE_MS
end

-- Records a new longest lease. Call before giving a lease.
local function note_lease(ms)
  if ms > LEASE_MS and ms > longest_lease() then redis.call('HSET', KEYS[1], 'longest_lease', ms) end
end
