-- A topic's policy: settings of `configure`, and defaults.
local POLICY = {
  max_attempts = MAX_ATTEMPTS,
  lease_ms = LEASE_MS,
  expire_after_ms = 0,
  remember_cancelled_ms = REMEMBER_CANCELLED_MS,
  remember_own_ms = REMEMBER_OWN_MS,
  remember_generated_ms = 0,
}

-- One number of a topic's policy.
local function policy(no, field)
  return tonumber(redis.call('HGET', base .. 't:' .. no, field)) or POLICY[field]
end

-- Two numbers of a topic's policy.
local function policies(no, one, two)
  local values = redis.call('HMGET', base .. 't:' .. no, one, two)
  return tonumber(values[1]) or POLICY[one], tonumber(values[2]) or POLICY[two]
end
