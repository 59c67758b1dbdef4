-- How long a lease lasts, and the longest that the shard ever gave: one that ends later from now than that was taken
-- while the clock read ahead, and the pump cuts it.

-- The lease of a topic in ms, of what its policy says.
local function topic_lease(text)
  return math.max(math.min(tonumber(text) or LEASE_MS, LONGEST_LEASE_MS), 1)
end

local function longest_lease()
  return tonumber(redis.call('HGET', KEYS[1], 'longest_lease')) or LEASE_MS
end

-- To be called before a lease is given: notes it where it is the longest so far.
local function note_lease(ms)
  if ms > LEASE_MS and ms > longest_lease() then redis.call('HSET', KEYS[1], 'longest_lease', ms) end
end
