-- Topics: a number for each name, as text.

-- The number of a topic, or false before its first message.
local function topic_no(name)
  return redis.call('HGET', KEYS[1], 'topic:' .. name)
end
