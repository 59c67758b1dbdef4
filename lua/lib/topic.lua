-- Topics: a number for each name, and the policy that messages fall back to. Numbers are text.
local POLICY = {
  max_attempts = 16,
  lease_ms = LEASE_MS,
  expire_after_ms = 0,
  remember_cancelled_ms = 3600000,
  remember_own_ms = 60000,
  remember_generated_ms = 0,
}

-- The number of a topic, or false where nothing was ever put into it.
local function topic_no(name)
  return redis.call('HGET', KEYS[1], 'topic:' .. name)
end

-- The number of a topic, and false; or the one that it will have, and true: `topic_open` gives it out.
local function topic_number(name)
  local no = topic_no(name)
  if no then return no, false end
  no = string.format('%.0f', (tonumber(redis.call('HGET', KEYS[1], 'topics')) or 0) + 1)
  must_be('hash', 't:' .. no)
  return no, true
end

-- Gives a topic its number, at its first use. To be called once nothing is refused any more.
local function topic_open(name, no)
  redis.call('HSET', base .. 't:' .. no, 'name', name)
  redis.call('HSET', KEYS[1], 'topics', no, 'topic:' .. name, no)
end

-- One number of a topic's policy.
local function policy(no, field)
  must_be('hash', 't:' .. no)
  return tonumber(redis.call('HGET', base .. 't:' .. no, field)) or POLICY[field]
end

-- Two numbers of a topic's policy.
local function policies(no, one, two)
  local values = redis.pcall('HMGET', base .. 't:' .. no, one, two)
  if values.err then must_be('hash', 't:' .. no) end
  return tonumber(values[1]) or POLICY[one], tonumber(values[2]) or POLICY[two]
end

local function count(counter, no, by)
  if by ~= 0 then redis.call('HINCRBY', base .. 'stats', counter .. ':' .. no, by) end
end
