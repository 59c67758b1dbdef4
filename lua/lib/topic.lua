-- Topics: a number for each name, as text.

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
